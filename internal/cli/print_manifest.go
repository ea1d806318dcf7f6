package cli

import (
	"context"
	"fmt"

	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// printManifest prints what an addon phase would deploy to a new cluster, without access to a
// cluster.
func printManifest(ctx context.Context, p *program, r state.Reader, n *node.Node,
	address string) error {
	host, patches, err := manifestinput.Read(ctx, r, n, func(format string, args ...any) {
		warn(p, "patches", fmt.Sprintf(format, args...))
	})
	if err != nil {
		return err
	}
	var objects []state.Object
	switch address {
	case "addon/coredns":
		var made manifest.CoreDNS
		if made, err = manifest.NewCoreDNS(n, manifest.DNSReplicas, patches); err == nil {
			objects = made.ManifestObjects()
		}
	case "addon/kube-proxy":
		var made manifest.KubeProxy
		if made, err = manifest.NewKubeProxy(n, host, patches); err == nil {
			objects = made.ManifestObjects()
		}
	default:
		err = fmt.Errorf("phase %s has no manifest to print", address)
	}
	if err != nil {
		return err
	}
	data, err := manifest.YAML(objects...)
	if err == nil {
		_, err = p.Out.Write(data)
	}
	return err
}
