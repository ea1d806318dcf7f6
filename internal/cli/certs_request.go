package cli

import (
	"context"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/workflow"
)

func (p *program) certsRequest() *cobra.Command {
	var certDir, file string
	flags := config.NewInitFlags()
	flags.KubeconfigDir = node.DefaultPaths().Kubeconfigs
	c := &cobra.Command{
		Use:   "generate-csr",
		Short: "Make keys and certificate requests for an authority that is kept elsewhere",
		Long: `Make the keys of a control plane, and for each a request for a certificate (".csr"), for a certificate authority
that is kept elsewhere. Nothing is written if one of the files is there already.

Each certificate that comes back belongs beside its key, in a file that ends with ".crt". That of a kubeconfig belongs into
the kubeconfig itself, as "client-certificate-data" of its user, and the authority's as
"certificate-authority-data" of its cluster, both in base64. Then "kubeadm init" uses them.`,
		Example: `  # for this machine, as init would name and address it
  kubeadm certs generate-csr --kubeconfig-dir /tmp/k8s --cert-dir /tmp/k8s/pki`,
		Args: known,
		RunE: func(c *cobra.Command, _ []string) error {
			n, how, err := p.offline(c.Context(), file, flags, true)
			if err == nil && certDir != "" {
				n.Paths.Certificates = certDir
			}
			return p.request(c.Context(), n, how, err)
		},
	}
	values{flag.CertDir: &certDir, flag.Config: &file, flag.KubeconfigDir: &flags.KubeconfigDir}.bind(c.Flags())
	return c
}

// offline is the intent of an init that sends no request. Without a default route it has no address that others could
// use: that is a warning where the command needs it, or where there is no shared endpoint.
func (p *program) offline(ctx context.Context, name string, flags config.InitFlags, needsAddress bool) (*node.Node, config.Run, error) {
	real := p.World()
	file, err := p.readConfig(ctx, real, name)
	if err != nil {
		return nil, config.Run{}, err
	}
	facts, err := p.facts(ctx, real, false)
	if err != nil {
		return nil, config.Run{}, err
	}
	facts.Fetch, facts.AddressOptional = nil, true
	n, how, err := config.Init(file, flags, facts)
	if err == nil && n.Address == "" {
		n.Address = "0.0.0.0"
		if needsAddress || n.Cluster.Endpoint == "" {
			how.Warnings = append(how.Warnings, "there is no default route to choose the address of this machine by, so "+
				n.Address+" takes its place; set advertiseAddress of localAPIEndpoint in a file for --config")
		}
	}
	return n, how, err
}

func (p *program) request(ctx context.Context, n *node.Node, how config.Run, failed error) error {
	s := p.session(p.World(), "certs", flow.Selection{}, config.Run{Warnings: how.Warnings})
	s.phases = workflow.Request
	if failed != nil {
		return failed
	}
	return p.within(ctx, s, n, func(e *flow.Env) error {
		e.Node = func(context.Context) (*node.Node, error) { return n, nil }
		ahead := len(pki.KubeconfigProfiles())
		for _, profile := range pki.Profiles() {
			if !profile.IsCA() {
				ahead++
			}
		}
		e.Keys = pki.NewStock(p.Random("keys"), n.Cluster.Algorithm, ahead).Key
		return s.run(ctx, e)
	})
}
