// Package addon deploys CoreDNS and kube-proxy.
package addon

import (
	"context"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
)

// Phase deploys CoreDNS and kube-proxy.
var Phase = engine.Phase{
	Name:  "addon",
	Short: "Deploy CoreDNS and kube-proxy",
	Long:  "Deploy the addons that every conformant cluster needs: CoreDNS and kube-proxy.",
	Flags: []flag.Name{flag.APIServerAdvertise, flag.APIServerBindPort, flag.Config,
		flag.ControlPlaneEndpoint, flag.DryRun,
		flag.FeatureGates, flag.ImageRepository, flag.Kubeconfig, flag.KubernetesVersion,
		flag.NodeAddressFrom, flag.PodNetworkCIDR, flag.ServiceCIDR, flag.ServiceDNSDomain},
	Parallel: true,
	Phases: []engine.Phase{
		{
			Name: "coredns", Short: "Deploy CoreDNS", Run: deployCoreDNS,
			Flags: []flag.Name{flag.Config, flag.DryRun, flag.FeatureGates, flag.ImageRepository,
				flag.Kubeconfig,
				flag.KubernetesVersion, flag.PrintManifest, flag.ServiceCIDR,
				flag.ServiceDNSDomain},
			When: func(n *node.Node) (bool, string) {
				return !n.Cluster.DNS.Disabled, "CoreDNS is disabled in the configuration"
			},
		},
		{
			Name: "kube-proxy", Short: "Deploy kube-proxy", Run: deployKubeProxy,
			Flags: []flag.Name{flag.APIServerAdvertise, flag.APIServerBindPort, flag.Config,
				flag.ControlPlaneEndpoint, flag.DryRun,
				flag.ImageRepository, flag.Kubeconfig, flag.KubernetesVersion, flag.NodeAddressFrom,
				flag.PodNetworkCIDR, flag.PrintManifest},
			When: func(n *node.Node) (bool, string) {
				return !n.Cluster.Proxy.Disabled, "kube-proxy is disabled in the configuration"
			},
		},
	},
}

func deployKubeProxy(ctx context.Context, e *engine.Env) error {
	n, as, err := e.Cluster(ctx)
	if err != nil {
		return err
	}
	host, patches, err := manifestinput.Read(ctx, e.World, n, e.Named("patches").WarnOnce)
	if err != nil {
		return err
	}
	objects, err := manifest.NewKubeProxy(n, host, patches)
	if err != nil {
		return err
	}
	e.Say("deploying kube-proxy")
	return e.DoAll(ctx, change.ApplyAll(as, objects.Objects()...)...)
}
