// Package controlplane writes the static Pods of the control plane's components.
package controlplane

import (
	"context"

	"kubeadm/internal/certstore"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// Phase writes the manifests of kube-apiserver, kube-controller-manager and kube-scheduler.
var Phase = engine.Phase{
	Name:  "control-plane",
	Short: "Write the static Pod manifests for the control plane",
	Long:  "Write the static Pod manifests from which the kubelet runs the control plane components.",
	Run: func(_ context.Context, e *engine.Env) error {
		e.Say("using the manifest directory %q", e.Local.Paths.Manifests())
		return nil
	},
	Phases: []engine.Phase{
		newComponentPhase("apiserver", release.APIServer, phaseindex.StartAPIServer, flag.APIServerAdvertise,
			flag.APIServerBindPort, flag.APIServerExtraArgs,
			flag.ControlPlaneEndpoint, flag.FeatureGates, flag.NodeAddressFrom, flag.ServiceCIDR),
		newComponentPhase("controller-manager", release.ControllerManager,
			phaseindex.StartControllerManager, flag.ControllerManagerArgs, flag.PodNetworkCIDR),
		newComponentPhase("scheduler", release.Scheduler, phaseindex.StartScheduler,
			flag.SchedulerExtraArgs),
	},
}

// Join writes the same manifests for one more control plane.
var Join = engine.Phase{
	Name:  "control-plane",
	Short: "Write the static Pod manifests for this control plane node",
	Long:  "Write the static Pod manifests from which the kubelet runs the components of this control plane node.",
	Flags: []flag.Name{flag.APIServerAdvertise, flag.APIServerBindPort, flag.Config,
		flag.ControlPlane, flag.DryRun, flag.NodeAddressFrom, flag.Patches},
	NoArgs: true,
	When:   node.IsControlPlane,
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		e.Say("using the manifest directory %q", n.Paths.Manifests())
		if err := writeSigningPair(ctx, e, n); err != nil {
			return err
		}
		write := writeManifest // a kubelet that is started later finds it
		if local, _ := node.HasLocalEtcd(n); local {
			write = deferToEtcd
		}
		for _, program := range manifest.Components() {
			if err := write(ctx, e, n, program); err != nil {
				return err
			}
		}
		return nil
	},
}

// writeSigningPair writes the pair with which kube-controller-manager signs if this node joins during
// a CA rotation.
func writeSigningPair(ctx context.Context, e *engine.Env, n *node.Node) error {
	pair, err := certstore.ReadSigningPair(ctx, e.World, n)
	if err != nil || pair == nil {
		return err
	}
	e.Say("the cluster's CAs are being replaced: run kubeadm certs rotate-ca trust on this node once " +
		"it has joined")
	return e.Do(ctx, pair)
}

// deferToEtcd defers the manifest until this machine's etcd member is a voter.
func deferToEtcd(ctx context.Context, e *engine.Env, n *node.Node, program string) error {
	return writeOrDefer(ctx, e, n, program, phaseindex.EtcdJoin.End())
}

// newComponentPhase returns the phase that writes the manifest of a component at the milestone.
func newComponentPhase(name, program string, at engine.Milestone, flags ...flag.Name) engine.Phase {
	return engine.Phase{
		Name:  name,
		Short: "Write the static Pod manifest for " + program,
		Flags: append([]flag.Name{
			flag.CertDir, flag.Config, flag.DryRun, flag.ImageRepository, flag.KubernetesVersion,
			flag.Patches,
		}, flags...),
		Run: func(ctx context.Context, e *engine.Env) error {
			n, err := e.Node(ctx)
			if err != nil {
				return err
			}
			return writeOrDefer(ctx, e, n, program, at)
		},
	}
}

// writeOrDefer defers the manifest to the milestone, unless an earlier run wrote it already. A
// component that starts before those that it needs retries only seconds later (docs/decisions/0022).
func writeOrDefer(ctx context.Context, e *engine.Env, n *node.Node, program string,
	at engine.Milestone) error {
	exists, err := state.Exists(ctx, e.World, n.Paths.Manifest(program))
	if err != nil {
		return err
	}
	if !exists {
		return e.Defer(ctx, at, func(ctx context.Context, e *engine.Env) error {
			return writeManifest(ctx, e, n, program)
		})
	}
	return writeManifest(ctx, e, n, program)
}

func writeManifest(ctx context.Context, e *engine.Env, n *node.Node, program string) error {
	e.Say("creating the static Pod manifest for %q", program)
	return staticpod.Write(ctx, e, n, program, nil)
}
