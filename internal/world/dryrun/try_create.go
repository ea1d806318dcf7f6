package dryrun

import (
	"context"

	"kubeadm/internal/state"
)

// TryCreate accepts every object for a cluster that this run would create.
func (w *World) TryCreate(ctx context.Context, o state.Object, as state.Identity) error {
	if w.isNotCreatedYet(ctx, as) {
		return nil
	}
	return w.World.TryCreate(ctx, o, as)
}
