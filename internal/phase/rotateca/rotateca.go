// Package rotateca replaces the CAs and the service account key of a running cluster in stages,
// without downtime. First every node trusts the old and the new CA, then the new one signs, and at
// last the old one is not trusted any more. Until then the rotation can be undone in the same steps.
// docs/decisions/0047 has the reasons.
package rotateca

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/rotation"
)

// New returns the phase that brings this node to a stage of a CA rotation.
func New(s rotation.Stage, o rotation.Options) engine.Phase {
	return engine.Phase{
		Name:  "rotate-ca",
		Short: "Bring this node to a stage of a CA rotation",
		Run: func(ctx context.Context, e *engine.Env) error {
			return run(ctx, e, s, o)
		},
	}
}
