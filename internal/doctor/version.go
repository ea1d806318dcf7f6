package doctor

import (
	"context"
	"fmt"

	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

func checkVersions(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster) {
	cluster, err := c.versions(ctx, r)
	if c.skipOnError(rep, err) {
		return
	}
	for _, text := range cluster.warnings {
		rep.Add(preflight.Finding{Severity: preflight.Warning, Text: text,
			Remedy: "finish the upgrade: kubeadm upgrade apply on one control plane node, kubeadm upgrade node on the others"})
	}
	newer, older := cluster.SkewedKubelets()
	for _, k := range newer {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:     fmt.Sprintf("the kubelet of node %s is newer than the control plane", k.Node),
			Evidence: fmt.Sprintf("kubelet %s, API server v%s", k.Version, cluster.Version),
			Remedy:   "upgrade the control plane, or install an older kubelet on that node"})
	}
	for _, k := range older {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:     fmt.Sprintf("the kubelet of node %s is too old for the control plane", k.Node),
			Evidence: fmt.Sprintf("kubelet %s, API server v%s", k.Version, cluster.Version),
			Remedy:   "upgrade the kubelet of that node"})
	}
}

func checkLeaders(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster) {
	cluster, err := c.versions(ctx, r)
	if c.skipOnError(rep, err) {
		return
	}
	runAll(ctx, r, rep, cluster.LeaderChecks(c.as))
}
