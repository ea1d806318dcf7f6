package cli

import (
	"context"
	"crypto/x509"
	"fmt"
	"path"
	"slices"

	"github.com/spf13/cobra"

	"kubeadm/internal/flag"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// readIdentity returns the user of a kubeconfig that the user of this program has chosen. Such a
// file may turn off the verification of the server's certificate, with a warning.
func (p *program) readIdentity(ctx context.Context, r state.Reader, file string) state.Identity {
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
		p.warn("kubeconfig", file+
			" has insecure-skip-tls-verify: any server at that address can read and forge everything; set certificate-authority-data to the CA instead")
	}
	return as
}

// warnOfForeignClient warns if the user names a kubeconfig whose client certificate is not signed
// by a CA that the file itself trusts, as one of another cluster is. It may still be right:
// clients may have a CA of their own.
func (p *program) warnOfForeignClient(ctx context.Context, c *cobra.Command, r state.Reader,
	file string) {
	if !c.Flags().Changed(string(flag.Kubeconfig)) {
		return
	}
	read := func(name string) ([]byte, error) { return r.ReadFile(ctx, name) }
	data, err := read(file)
	if err != nil {
		return // reported when the file is used
	}
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return
	}
	config.ResolvePaths(path.Dir(file))
	certs, err := config.ClientPair(read)
	if err != nil || certs == nil || pki.CheckPeriod(certs[0], r.Now()) != nil ||
		config.EmbedFiles(read) != nil {
		return
	}
	trusted, err := config.EmbeddedCAs()
	signs := func(ca *x509.Certificate) bool { return pki.VerifyChain(certs, ca, r.Now()) == nil }
	if err != nil || len(trusted) == 0 || slices.ContainsFunc(trusted, signs) {
		return
	}
	p.warn("kubeconfig", fmt.Sprintf(
		"%s: its client certificate %q is not signed by the CA that the file trusts, so the API server may refuse it",
		untrusted.Line(file), untrusted.Line(certs[0].Subject.CommonName)))
}
