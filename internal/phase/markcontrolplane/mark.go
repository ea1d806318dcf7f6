// Package markcontrolplane labels and taints the Node of a control plane.
package markcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Join labels and taints the Node of a joining control plane.
var Join = engine.Phase{
	Name:  "control-plane-join",
	Short: "Finish joining as a control plane node",
	Long:  "Complete the join of a control plane node by labeling and tainting it.",
	Flags: []flag.Name{flag.APIServerAdvertise, flag.Config, flag.ControlPlane, flag.DryRun,
		flag.NodeAddressFrom, flag.NodeName, flag.Patches},
	When: node.IsControlPlane,
	Phases: []engine.Phase{{
		Name:   Phase.Name,
		Short:  Phase.Short,
		Long:   Phase.Long,
		Flags:  []flag.Name{flag.Config, flag.ControlPlane, flag.DryRun, flag.NodeName},
		NoArgs: true,
		Run:    Phase.Run,
	}},
}

// Phase labels and taints this machine's Node.
var Phase = engine.Phase{
	Name:  "mark-control-plane",
	Short: "Label and taint this node as a control plane node",
	Long:  "Label this machine's Node as a control plane node, and taint it so that ordinary Pods are not scheduled on it.",
	Flags: []flag.Name{flag.Config, flag.DryRun, flag.NodeName},
	Run: func(ctx context.Context, e *engine.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		mark := change.LabelAndTaintNode{Name: n.Name, Labels: node.ControlPlaneLabels(),
			Taints: n.Taints, As: as}
		if err := e.Await(ctx, newRegisteredCondition(n, mark)); err != nil {
			return err
		}
		e.Say("marking node %s as a control plane node: %s", n.Name, mark)
		return e.Do(ctx, mark)
	},
}

// newRegisteredCondition is met once the kubelet has created its Node with the label of its host
// name, which the kubelet sets last.
func newRegisteredCondition(n *node.Node, mark change.LabelAndTaintNode) world.Condition {
	return world.Condition{
		Name:    "the kubelet to register node " + mark.Name,
		Timeout: n.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			u, err := r.Object(ctx, mark.Ref())
			if err == nil {
				if _, ok := u.GetLabels()[corev1.LabelHostname]; !ok {
					return fmt.Errorf("it has no label %s yet", corev1.LabelHostname)
				}
				return nil
			}
			hints := []string{"check the kubelet's log: journalctl -xeu kubelet"}
			kubeconfig := n.Paths.KubeletKubeconfig()
			if _, failed := r.Stat(ctx, kubeconfig); n.IsJoining() &&
				errors.Is(failed, fs.ErrNotExist) {
				hints = append([]string{kubeconfig +
					" does not exist; run this phase first: kubeadm join phase kubelet-wait-bootstrap"}, hints...)
			}
			return problem.New(err, hints...)
		},
	}
}
