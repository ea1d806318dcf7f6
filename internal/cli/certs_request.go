package cli

import (
	"context"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/run"
	"kubeadm/internal/workflow"
)

func newGenerateCSRCommand(p *program) *cobra.Command {
	var certDir, file string
	flags := config.NewInitFlags()
	flags.KubeconfigDir = node.DefaultPaths().Kubeconfigs
	c := &cobra.Command{
		Use:   "generate-csr",
		Short: "Generate keys and certificate signing requests for an external CA",
		Long: `Generate the keys of a control plane node, each with a certificate signing request (".csr") for an
external CA. If any of the files already exists, kubeadm writes nothing.

Save each signed certificate next to its key, with the extension ".crt". In each kubeconfig, set the user's
"client-certificate-data" to the certificate and the cluster's "certificate-authority-data" to the CA certificate,
both base64-encoded. Then run "kubeadm init".`,
		Example: `  # for this machine, with the names and addresses that init would put into the certificates
  kubeadm certs generate-csr --kubeconfig-dir /tmp/k8s --cert-dir /tmp/k8s/pki`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return generateCSRs(c.Context(), p, file, certDir, flags)
		},
	}
	flagTargets{flag.CertDir: &certDir, flag.Config: &file,
		flag.KubeconfigDir: &flags.KubeconfigDir}.bind(c.Flags())
	return c
}

// resolveOffline resolves the intent of an init without network requests. Without a default route
// it has no address to advertise: that is a warning if the command needs one or there is no
// control plane endpoint.
func resolveOffline(ctx context.Context, p *program, name string, flags config.InitFlags,
	needsAddress bool) (*node.Node, config.RunOptions, error) {
	file, err := readConfig(ctx, p, p.World(), name)
	if err != nil {
		return nil, config.RunOptions{}, err
	}
	facts, err := runHost(p).Facts(ctx, run.Needs{})
	if err != nil {
		return nil, config.RunOptions{}, err
	}
	facts.Fetch = nil
	n, how, err := config.Init(file, flags, facts)
	if err == nil && n.Address == "" {
		n.Address = "0.0.0.0"
		if needsAddress || n.Cluster.Endpoint == "" {
			how.Warnings = append(how.Warnings,
				"no default route, so the advertise address is "+n.Address+
					"; set localAPIEndpoint.advertiseAddress in a file for --config")
		}
	}
	return n, how, err
}

func generateCSRs(ctx context.Context, p *program, file, certDir string,
	flags config.InitFlags) (err error) {
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "certs", Phases: workflow.GenerateCSR})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	n, how, err := resolveOffline(ctx, p, file, flags, true)
	r.Warn(how.Warnings...)
	if err != nil {
		return err
	}
	if certDir != "" {
		n.Paths.Certificates = certDir
	}
	if err := r.Begin(ctx, n, config.RunOptions{}); err != nil {
		return err
	}
	ahead := len(pki.KubeconfigProfiles())
	for _, profile := range pki.Profiles() {
		if !profile.IsCA() {
			ahead++
		}
	}
	return r.Execute(ctx, r.NewEnv(engine.Env{
		Local: n.Local, Node: engine.Resolved(n),
		Keys: pki.NewKeyPool(ctx, p.NewKey, n.Cluster.Algorithm, ahead, ahead).Key,
	}))
}
