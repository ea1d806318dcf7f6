package check

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/nodename"
	"kubeadm/internal/state"
)

// checkComplete is an error if this node has half of another address or name.
func checkComplete(ctx context.Context, e *engine.Env, n *node.Node) error {
	if err := nodename.CheckComplete(ctx, e.World, n.Paths); err != nil {
		return err
	}
	return nodeaddress.CheckComplete(ctx, e.World, n)
}

// checkNodeChanges is an error if a control plane node has half of another address or name, and that is not what this command
// completes.
func checkNodeChanges(ctx context.Context, e *engine.Env, as state.Identity) error {
	return existing.CheckNodeChanges(ctx, e.Reader(), as, func(c existing.NodeChange) bool { return isOwnChange(e, c) })
}

// isOwnChange reports whether this command completes a change, or takes it back.
func isOwnChange(e *engine.Env, c existing.NodeChange) bool {
	switch intent := e.Intent.(type) {
	case nodeaddress.Intent:
		return c.MovingTo != "" && c.Node == intent.Present.Name
	case nodename.Rename:
		return c.RenamedFrom != "" && c.Node == intent.Other && c.RenamedFrom == intent.Original
	}
	return false
}
