package preflight

import (
	"context"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

const rootlessAccounts = "RootlessAccounts"

// accounts wants the users of a rootless control plane to be absent, or to be as they would be made.
func accounts(n *node.Node) []Check {
	if !manifest.Rootless(n) {
		return nil
	}
	return []Check{{Name: rootlessAccounts, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		if _, err := manifest.SystemAccounts().Done(ctx, r); err != nil {
			rep.fail(err)
		}
	}}}
}
