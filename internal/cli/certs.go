package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/pki"
)

func (p *program) certsCommand() *cobra.Command {
	c := newGroup("certs", "Manage certificates", p.certsApproveServing(), p.certificateKey(),
		p.certsCheck(), p.certsRequest(), p.certsRenew(), p.certsRotateCA())
	c.Aliases = []string{"certificates"}
	return c
}

func (p *program) certificateKey() *cobra.Command {
	return &cobra.Command{
		Use:   "certificate-key",
		Short: "Generate a certificate key",
		Long: `Generate and print a random certificate key: 64 hex digits.

"kubeadm init --upload-certs" and "kubeadm token create --print-join-command --upload-certs" generate
a key if --certificate-key is not set.`,
		Example: `  kubeadm init --upload-certs --certificate-key $(kubeadm certs certificate-key)`,
		Args:    refuseArguments,
		RunE: func(*cobra.Command, []string) error {
			key, err := p.newCertificateKey()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(p.Out, key)
			return err
		},
	}
}

// newCertificateKey generates a key and returns its hex digits.
func (p *program) newCertificateKey() (string, error) {
	key, err := pki.NewCertificateKey(p.Random("certificate-key"))
	return key.Hex(), err
}
