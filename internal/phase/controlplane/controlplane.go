// Package controlplane writes the static Pods of the control plane's components.
package controlplane

import (
	"context"

	"kubeadm/internal/carotation"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// Phase writes the manifests of kube-apiserver, kube-controller-manager and kube-scheduler.
var Phase = engine.Phase{
	Name:  "control-plane",
	Short: "Write the static Pod manifests of the control plane",
	Long:  "Write the static Pod manifests from which the kubelet runs the control plane's components.",
	Run: func(_ context.Context, e *engine.Env) error {
		e.Say("using the manifest directory %q", e.Local.Paths.Manifests())
		return nil
	},
	Phases: []engine.Phase{
		newComponentPhase("apiserver", release.APIServer, "", flag.APIServerAdvertise,
			flag.APIServerBindPort, flag.APIServerExtraArgs,
			flag.ControlPlaneEndpoint, flag.FeatureGates, flag.ServiceCIDR),
		newComponentPhase("controller-manager", release.ControllerManager, "wait-control-plane",
			flag.ControllerManagerArgs, flag.PodNetworkCIDR),
		newComponentPhase("scheduler", release.Scheduler, "wait-control-plane",
			flag.SchedulerExtraArgs),
	},
}

// Join writes the same manifests for one more control plane.
var Join = engine.Phase{
	Name:  "control-plane",
	Short: "Write the static Pod manifests of this control plane node",
	Long:  "Write the static Pod manifests from which the kubelet runs the components of this control plane node.",
	Flags: []flag.Name{flag.APIServerAdvertise, flag.APIServerBindPort, flag.Config,
		flag.ControlPlane, flag.DryRun, flag.Patches},
	NoArgs: true,
	When:   node.IsControlPlane,
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		e.Say("using the manifest directory %q", n.Paths.Manifests())
		// A kubelet that finds no directory looks for it again only later.
		if err := e.Do(ctx, change.MakeDir{Path: n.Paths.Manifests(), Mode: 0o700}); err != nil {
			return err
		}
		if err := carotation.PrepareJoin(ctx, e, n); err != nil {
			return err
		}
		for _, program := range manifest.Components() {
			if err := writeOrPostpone(ctx, e, n, program, "etcd-join"); err != nil {
				return err
			}
		}
		return nil
	},
}

// newComponentPhase returns the phase that writes the manifest of a component. If later is set,
// the phase of that name writes it.
func newComponentPhase(name, program, later string, flags ...flag.Name) engine.Phase {
	return engine.Phase{
		Name:  name,
		Short: "Write the static Pod manifest of " + program,
		Flags: append([]flag.Name{
			flag.CertDir, flag.Config, flag.DryRun, flag.ImageRepository, flag.KubernetesVersion,
			flag.Patches,
		}, flags...),
		Run: func(ctx context.Context, e *engine.Env) error {
			n, err := e.Node(ctx)
			if err != nil {
				return err
			}
			return writeOrPostpone(ctx, e, n, program, later)
		},
	}
}

// writeOrPostpone postpones the manifest to a later phase, unless an earlier run wrote it already.
// A component that starts before those that it needs retries only seconds later
// (docs/decisions/0022).
func writeOrPostpone(ctx context.Context, e *engine.Env, n *node.Node, program,
	phase string) error {
	exists, err := state.Exists(ctx, e.World, n.Paths.Manifest(program))
	if err != nil {
		return err
	}
	if !exists {
		return e.Defer(ctx, phase,
			func(ctx context.Context) error { return writeManifest(ctx, e, n, program) })
	}
	return writeManifest(ctx, e, n, program)
}

func writeManifest(ctx context.Context, e *engine.Env, n *node.Node, program string) error {
	e.Say("creating the static Pod manifest for %q", program)
	return staticpod.Write(ctx, e, n, program, nil)
}
