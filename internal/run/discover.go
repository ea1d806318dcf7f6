package run

import (
	"context"

	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
)

// Discover finds the cluster that this machine joins. In an offline dry run that is the simulated
// one: its CA takes the place of the pinned one here and nowhere else.
func (r *Run) Discover(ctx context.Context, e *engine.Env) (*node.Node, error) {
	searching := *e
	if r.simulatedPins != nil {
		searching.Local.Discovery.CACertHashes = r.simulatedPins
	}
	n, err := discovery.Node(ctx, &searching)
	if err == nil {
		n.Discovery = e.Local.Discovery
	}
	return n, err
}
