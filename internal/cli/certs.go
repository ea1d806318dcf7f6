package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kubeadm/internal/pki"
)

func newCertsCommand(p *program) *cobra.Command {
	c := newGroup("certs", "Manage certificates", newApproveServingCommand(p), newCertificateKeyCommand(p),
		newCheckExpirationCommand(p), newGenerateCSRCommand(p), newRenewCommand(p), newRotateCACommand(p))
	c.Aliases = []string{"certificates"}
	return c
}

func newCertificateKeyCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "certificate-key",
		Short: "Generate a certificate key",
		Long: `Generate and print a random certificate key: 64 hex digits.

"kubeadm init --upload-certs" and "kubeadm token create --print-join-command --upload-certs" generate
a key if --certificate-key is not set.`,
		Example: `  kubeadm init --upload-certs --certificate-key $(kubeadm certs certificate-key)`,
		Args:    refuseArguments,
		RunE: func(*cobra.Command, []string) error {
			key, err := newCertificateKey(p.Random)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(p.Out, key)
			return err
		},
	}
}

// newCertificateKey generates a key and returns its hex digits.
func newCertificateKey(random func(name string) io.Reader) (string, error) {
	key, err := pki.NewCertificateKey(random("certificate-key"))
	return key.Hex(), err
}
