// Package markcontrolplane labels and taints a control plane's Node, so that it can be told from a
// worker's and ordinary Pods stay away from it.
package markcontrolplane

import (
	"context"

	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
)

// Join labels and taints the Node of one more control plane.
var Join = flow.Phase{
	Name:  "control-plane-join",
	Short: "Make this node known as a control plane",
	Long:  "Make this node known as a control plane.",
	Flags: []flag.Name{flag.APIServerAdvertise, flag.Config, flag.ControlPlane, flag.DryRun, flag.NodeName, flag.Patches},
	When:  node.IsControlPlane,
	Phases: []flow.Phase{{
		Name:   Phase.Name,
		Short:  Phase.Short,
		Long:   Phase.Long,
		Flags:  []flag.Name{flag.Config, flag.ControlPlane, flag.DryRun, flag.NodeName},
		NoArgs: true,
		Run:    Phase.Run,
	}},
}

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
		if err := e.Await(ctx, newRegisteredCondition(n, mark)); err != nil {
			return err
		}
		e.Say("marking node %s as a control plane: %s", n.Name, mark)
		return e.Do(ctx, mark)
	},
}
