package markcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// newRegisteredCondition holds once the kubelet has made its Node and labelled it with its host name,
// which comes after all else that a kubelet says of its Node at first.
func newRegisteredCondition(n *node.Node, mark change.LabelNode) world.Condition {
	return world.Condition{
		Name:    "the kubelet to register node " + mark.Name,
		Timeout: n.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			u, err := r.Object(ctx, mark.Ref())
			if err != nil {
				return problem.New("", err, append(missingKubeconfigHints(ctx, r, n), "see what the kubelet says: journalctl -xeu kubelet")...)
			}
			if _, ok := u.GetLabels()[corev1.LabelHostname]; !ok {
				return fmt.Errorf("it has no label %s yet", corev1.LabelHostname)
			}
			return nil
		},
	}
}

// missingKubeconfigHints tells which phase to run where the kubelet has no credential of its own yet.
func missingKubeconfigHints(ctx context.Context, r state.Reader, n *node.Node) []string {
	if _, err := r.Stat(ctx, n.Paths.KubeletKubeconfig()); !errors.Is(err, fs.ErrNotExist) || !n.Joins() {
		return nil
	}
	return []string{n.Paths.KubeletKubeconfig() + " does not exist: run the kubelet-wait-bootstrap phase first"}
}
