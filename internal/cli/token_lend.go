package cli

import (
	"context"

	"kubeadm/internal/discovery"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/phase/uploadcerts"
	"kubeadm/internal/report"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// lend uploads the certificates that control planes share, sealed by the certificate key, as the phase of init does.
func (p *program) lend(ctx context.Context, w world.World, text *report.Text, local node.Local, as state.Identity) error {
	e := flow.Env{World: w, Local: local, Rand: p.Random, Emit: text.Emit, Once: afresh}
	e.Tool, _ = p.tool() // was good enough to resolve what the user wants
	own := flow.New(e).Named(uploadcerts.Phase.Name)
	n, err := discovery.Member(ctx, own, as)
	if err != nil {
		return err
	}
	if n.Cluster.Endpoint == "" {
		own.Warn("the cluster has no controlPlaneEndpoint: no further control plane can join it before ConfigMap kubeadm-config names one")
	}
	return uploadcerts.Upload(ctx, own, n, as)
}
