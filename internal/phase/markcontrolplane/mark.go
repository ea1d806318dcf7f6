// Package markcontrolplane labels and taints a control plane's Node, so that it can be told from a
// worker's and ordinary Pods stay away from it.
package markcontrolplane

import (
	"context"

	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
)

// Phase labels and taints this machine's Node.
var Phase = flow.Phase{
	Name:  "mark-control-plane",
	Short: "Mark this node as a control plane",
	Long:  "Label this machine's Node as a control plane and taint it so that ordinary Pods stay away.",
	Flags: []flag.Name{flag.Config, flag.DryRun, flag.NodeName},
	Run: func(ctx context.Context, e *flow.Env) error {
		n, as, err := e.Cluster(ctx)
		if err != nil {
			return err
		}
		mark := change.LabelNode{Name: n.Name, Labels: manifest.ControlPlaneLabels(), Taints: n.Taints, As: as}
		if err := e.Await(ctx, registered(mark, n.Timeouts.KubernetesAPI)); err != nil {
			return err
		}
		e.Say("marking node %s as a control plane: %s", n.Name, mark)
		return e.Do(ctx, mark)
	},
}
