// Package rotateca has the phase that brings a node to a stage of a CA rotation.
package rotateca

import (
	"context"

	"kubeadm/internal/carotation"
	"kubeadm/internal/engine"
)

// New returns the phase of a stage.
func New(s carotation.Stage, o carotation.Options) engine.Phase {
	return engine.Phase{
		Name:  "rotate-ca",
		Short: "Bring this node to a stage of a CA rotation",
		Run: func(ctx context.Context, e *engine.Env) error {
			return carotation.Run(ctx, e, s, o)
		},
	}
}
