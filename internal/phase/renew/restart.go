package renew

import (
	"context"

	"kubeadm/internal/engine"
	"kubeadm/internal/localkubelet"
)

// RestartStale replaces the client certificate of a kubelet that can no longer rotate it, restarts
// the components of this control plane that use a certificate from before its renewal, and reports
// the nodes that have stopped reporting. The kubelet comes first: static Pods need one that runs.
var RestartStale = engine.Phase{
	Name:  "restart",
	Short: "Restart the components that still use a pre-renewal certificate",
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		hadExpired, err := localkubelet.Repair(ctx, e.Named("kubelet"), n)
		if err != nil {
			return err
		}
		s := &staleRestart{node: n, as: as, kubeletHadExpired: hadExpired}
		live, err := s.restartStale(ctx, e)
		if err != nil || !live {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return reportNodes(ctx, e.Named("nodes"), as, hadExpired)
	},
}
