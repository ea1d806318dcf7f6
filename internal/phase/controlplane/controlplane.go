// Package controlplane writes the static Pods of the control plane's components.
package controlplane

import (
	"context"

	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/staticpod"
)

// Phase writes the manifests of kube-apiserver, kube-controller-manager and kube-scheduler.
var Phase = flow.Phase{
	Name:  "control-plane",
	Short: "Write the static Pods of the control plane",
	Long:  "Write the static Pod manifests from which the kubelet runs the control plane's components.",
	Run: func(_ context.Context, e *flow.Env) error {
		e.Say("using the manifest folder %q", e.Local.Paths.Manifests())
		return nil
	},
	Phases: []flow.Phase{
		component("apiserver", release.APIServer, flag.APIServerAdvertise, flag.APIServerBindPort, flag.APIServerExtraArgs,
			flag.ControlPlaneEndpoint, flag.FeatureGates, flag.ServiceCIDR),
		component("controller-manager", release.ControllerManager, flag.ControllerManagerArgs, flag.PodNetworkCIDR),
		component("scheduler", release.Scheduler, flag.SchedulerExtraArgs),
	},
}

// Join writes the same manifests for one more control plane.
var Join = flow.Phase{
	Name:   "control-plane",
	Short:  "Write the static Pods of this control plane",
	Long:   "Write the static Pod manifests from which the kubelet runs this control plane's components.",
	Flags:  []flag.Name{flag.APIServerAdvertise, flag.APIServerBindPort, flag.Config, flag.ControlPlane, flag.DryRun, flag.Patches},
	NoArgs: true,
	When:   node.IsControlPlane,
	Run: func(ctx context.Context, e *flow.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		e.Say("using the manifest folder %q", n.Paths.Manifests())
		for _, program := range manifest.Components() {
			if err := write(ctx, e, n, program); err != nil {
				return err
			}
		}
		return nil
	},
}

func common() []flag.Name {
	return []flag.Name{flag.CertDir, flag.Config, flag.DryRun, flag.ImageRepository, flag.KubernetesVersion, flag.Patches}
}

func component(name, program string, flags ...flag.Name) flow.Phase {
	return flow.Phase{
		Name:  name,
		Short: "Write the " + program + " static Pod",
		Flags: append(common(), flags...),
		Run: func(ctx context.Context, e *flow.Env) error {
			n, err := e.Node(ctx)
			if err != nil {
				return err
			}
			return write(ctx, e, n, program)
		},
	}
}

func write(ctx context.Context, e *flow.Env, n *node.Node, program string) error {
	e.Say("creating the static Pod manifest for %q", program)
	return staticpod.Write(ctx, e, n, program, nil)
}
