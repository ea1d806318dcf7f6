package reconfiguration

import (
	"context"
	"fmt"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// ReadKubelet reads the configuration file of this machine's kubelet.
func ReadKubelet(ctx context.Context, r state.Reader, n *node.Node) (*kubeletconfig.KubeletConfiguration, error) {
	file := n.Paths.KubeletConfig()
	data, err := state.ReadRequired(ctx, r, file)
	if err != nil {
		return nil, err
	}
	k := &kubeletconfig.KubeletConfiguration{}
	if err := yaml.Unmarshal(data, k); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return k, nil
}
