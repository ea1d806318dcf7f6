package cli

import (
	"context"
	"fmt"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/survey"
)

// printManifest prints what an addon's phase would deploy to a cluster that has none yet, which it does not ask.
func (p *program) printManifest(ctx context.Context, r change.Reader, n *node.Node, address string) error {
	patches, _, err := survey.Patches(ctx, r, n.Patches)
	if err != nil {
		return err
	}
	var objects []change.Object
	switch address {
	case "addon/coredns":
		made, failed := manifest.NewCoreDNS(n, manifest.DNSReplicas, patches)
		objects, err = made.Printed(), failed
	case "addon/kube-proxy":
		host, failed := survey.Host(ctx, r, n)
		if failed != nil {
			return failed
		}
		made, failed := manifest.NewKubeProxy(n, host, patches)
		if failed == nil {
			objects = made.Printed()
		}
		err = failed
	default:
		err = fmt.Errorf("phase %s has no manifest to print", address)
	}
	if err != nil {
		return err
	}
	text, err := manifest.YAML(objects...)
	if err == nil {
		_, err = p.Out.Write(text)
	}
	return err
}
