package discovery

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Member completes what is known of a machine that is a node of the cluster already. It says nothing of the
// kubelet's configuration and kube-proxy's.
func Member(ctx context.Context, e *flow.Env, as state.Identity) (*node.Node, error) {
	var found corev1.ConfigMap
	if err := configMap(ctx, e.World, kept(manifest.KubeadmConfigMap, as), &found); err != nil {
		return nil, fmt.Errorf("reading the cluster's configuration: %w", err)
	}
	n, warnings, err := config.Member(e.Local, found.Data[manifest.KubeadmConfigKey], e.Tool)
	for _, w := range warnings {
		e.Warn("%s", untrusted.Line(w))
	}
	return n, err
}
