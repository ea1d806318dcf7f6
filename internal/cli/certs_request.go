package cli

import (
	"context"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/run"
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
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.generateCSRs(c.Context(), file, certDir, flags)
		},
	}
	values{flag.CertDir: &certDir, flag.Config: &file, flag.KubeconfigDir: &flags.KubeconfigDir}.bind(c.Flags())
	return c
}

// resolveOffline is the intent of an init that sends no request. Without a default route it has no address that others could
// use: that is a warning where the command needs it, or where there is no shared endpoint.
func (p *program) resolveOffline(ctx context.Context, name string, flags config.InitFlags, needsAddress bool) (*node.Node, config.Run, error) {
	file, err := p.readConfig(ctx, p.World(), name)
	if err != nil {
		return nil, config.Run{}, err
	}
	facts, err := p.gatherFacts(ctx, false)
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

func (p *program) generateCSRs(ctx context.Context, file, certDir string, flags config.InitFlags) (err error) {
	r, err := p.openRun(ctx, run.Command{Name: "certs", Phases: workflow.Request})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	n, how, err := p.resolveOffline(ctx, file, flags, true)
	r.Warn(how.Warnings...)
	if err != nil {
		return err
	}
	if certDir != "" {
		n.Paths.Certificates = certDir
	}
	if err := r.Begin(ctx, n, config.Run{}); err != nil {
		return err
	}
	ahead := len(pki.KubeconfigProfiles())
	for _, profile := range pki.Profiles() {
		if !profile.IsCA() {
			ahead++
		}
	}
	return r.Execute(ctx, r.NewEnv(flow.Env{
		Local: n.Local, Node: flow.Resolved(n), Keys: pki.NewStock(p.Random("keys"), n.Cluster.Algorithm, ahead).Key,
	}))
}
