// Package renew has a phase for each certificate of a control plane that can be renewed, and one that
// restarts components after a renewal and recovers a node or a cluster whose certificates have expired.
package renew

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/renewal"
)

// Phase renews them serially, in the order of their names, whether they are about to expire or
// not.
var Phase = engine.Phase{
	Name:   string(phaseindex.Renew),
	Short:  "Renew the certificates",
	Phases: newPhases("Renew ", renewal.Renew),
}

// Request writes requests for the certificates of external CAs.
var Request = engine.Phase{
	Name:   string(phaseindex.Request),
	Short:  "Write keys and certificate signing requests for an external CA",
	Phases: newPhases("Request ", renewal.Request),
}

func newPhases(verb string,
	do func(context.Context, *engine.Env, pki.Renewable) error) []engine.Phase {
	var phases []engine.Phase
	for _, c := range pki.Renewables() {
		phases = append(phases, engine.Phase{
			Name:  c.Name,
			Short: verb + c.Purpose,
			Run: func(ctx context.Context, e *engine.Env) error {
				return do(ctx, e, c)
			},
		})
	}
	return phases
}
