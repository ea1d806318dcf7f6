package cli

import (
	"context"

	"github.com/spf13/cobra"

	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// readIdentity returns the user of a kubeconfig that the user of this program has chosen. Such a
// file may turn off the verification of the server's certificate, with a warning.
func readIdentity(ctx context.Context, p *program, r state.Reader, file string) state.Identity {
	as := state.Identity{Kubeconfig: file}
	data, err := r.ReadFile(ctx, file)
	if err != nil {
		return as // reported when the file is used
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return as
	}
	if cluster, err := config.CurrentCluster(); err == nil && cluster.InsecureSkipTLSVerify {
		as.AllowInsecure = true
		warn(p, "kubeconfig", file+
			" has insecure-skip-tls-verify: any server at that address can read and forge all traffic; set certificate-authority-data to the CA instead")
	}
	return as
}

// warnOfForeignClient warns if the user names a kubeconfig of another cluster.
func warnOfForeignClient(ctx context.Context, p *program, c *cobra.Command, r state.Reader,
	file string) {
	if !c.Flags().Changed(string(flag.Kubeconfig)) {
		return
	}
	if warning := existing.CheckClient(ctx, r, file); warning != "" {
		warn(p, "kubeconfig", warning)
	}
}
