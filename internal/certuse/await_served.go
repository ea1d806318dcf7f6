package certuse

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
)

// AwaitServed waits until the components of this machine serve the certificates on disk.
func AwaitServed(ctx context.Context, e *engine.Env, at *node.Node) error {
	uses, err := ListUses(ctx, e, at)
	if err != nil {
		return err
	}
	for _, u := range uses {
		if u.Server == "" {
			continue
		}
		if err := e.Await(ctx, u.Condition(at)); err != nil {
			return problem.New(err, "restart the components that do not read their certificates: "+
				"kubeadm certs renew all --restart", "then run this command again")
		}
	}
	return nil
}
