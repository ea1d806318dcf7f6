package preview

import (
	"context"

	"kubeadm/internal/state"
)

// TryCreate says yes for a cluster that this run would bring to life.
func (w *World) TryCreate(ctx context.Context, o state.Object, as state.Identity) error {
	if w.unborn(ctx, as) {
		return nil
	}
	return w.World.TryCreate(ctx, o, as)
}
