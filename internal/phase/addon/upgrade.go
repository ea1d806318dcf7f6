package addon

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
)

// Upgrade upgrades CoreDNS and kube-proxy once the last API server has been upgraded: an older API
// server may not serve what the new addons need.
var Upgrade = engine.Phase{
	Name:  Phase.Name,
	Short: "Upgrade CoreDNS and kube-proxy",
	Long:  "Upgrade CoreDNS and kube-proxy once all of the cluster's API servers have been upgraded.",
	When: func(n *node.Node) (bool, string) {
		return n.Role == node.ControlPlane, "this machine is not a control plane node"
	},
	Flags: upgradeFlags,
	Phases: []engine.Phase{
		newUpgradePhase(Phase.Phases[0], "Upgrade CoreDNS"),
		newUpgradePhase(Phase.Phases[1], "Upgrade kube-proxy"),
	},
	Parallel: true,
}

var upgradeFlags = []flag.Name{flag.Config, flag.DryRun, flag.Kubeconfig, flag.Patches}

// newUpgradePhase is a phase of init that runs only after the last API server has been upgraded.
func newUpgradePhase(p engine.Phase, short string) engine.Phase {
	deploy := p.Run
	p.Short, p.Flags = short, upgradeFlags
	p.Run = func(ctx context.Context, e *engine.Env) error {
		behind, err := findOtherAPIServers(ctx, e)
		if err != nil {
			return err
		}
		if len(behind) > 0 {
			e.Say("skipped until all API servers have the same image as this node's; the API servers of "+
				"these nodes do not have it yet: %s", strings.Join(behind, ", "))
			return nil
		}
		return deploy(ctx, e)
	}
	return p
}

// ownAPIServerImage is the image of this node's API server, which patches may have changed.
func ownAPIServerImage(ctx context.Context, e *engine.Env, n *node.Node) (string, error) {
	pod, err := staticpod.Read(ctx, e, n, release.APIServer)
	if err != nil {
		return "", err
	}
	c, err := manifest.ComponentContainer(pod, release.APIServer)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", n.Paths.Manifest(release.APIServer), err)
	}
	return c.Image, nil
}

// findOtherAPIServers names the nodes whose API server has another image than this node is to
// have. The Pod of this node need not be listed: the kubelet creates it again after a change.
func findOtherAPIServers(ctx context.Context, e *engine.Env) ([]string, error) {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	own, err := ownAPIServerImage(ctx, e, n)
	if err != nil {
		return nil, err
	}
	all, err := e.List(ctx, state.Query{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: "kube-system",
		LabelSelector: "component=kube-apiserver", As: as,
	})
	if err != nil {
		return nil, fmt.Errorf("looking for the API servers of other nodes: %w", err)
	}
	var behind []string
	for _, u := range all {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &pod); err != nil {
			return nil, fmt.Errorf("reading Pod %s: %w", u.GetName(), err)
		}
		if pod.Spec.NodeName == n.Name {
			continue // the kubelet may still have to replace the Pod of the previous API server
		}
		c, err := manifest.ComponentContainer(&pod, release.APIServer)
		if err != nil {
			return nil, fmt.Errorf("reading Pod %s: %w", pod.Name, err)
		}
		if c.Image != own {
			behind = append(behind, pod.Spec.NodeName)
		}
	}
	slices.Sort(behind)
	return behind, nil
}
