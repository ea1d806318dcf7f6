// Package renew has a phase for each certificate of a control plane that can be renewed.
package renew

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/pki"
	"kubeadm/internal/renewal"
)

// Name is the name of the phase.
const Name = "renew"

// Phase renews them serially, in the order of their names, whether they are about to expire or
// not.
var Phase = engine.Phase{
	Name:   Name,
	Short:  "Renew the certificates",
	Phases: newPhases(),
}

func newPhases() []engine.Phase {
	var phases []engine.Phase
	for _, c := range pki.Renewables() {
		phases = append(phases, engine.Phase{
			Name:  c.Name,
			Short: "Renew " + c.Purpose,
			Run: func(ctx context.Context, e *engine.Env) error {
				return renewal.Renew(ctx, e, c)
			},
		})
	}
	return phases
}

// Address is the phase that renews the certificate of that name.
func Address(name string) string { return Name + "/" + name }
