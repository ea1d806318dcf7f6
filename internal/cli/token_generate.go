package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/node"
)

func newTokenGenerateCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "generate",
		Short: "Generate a bootstrap token without adding it to a cluster",
		Long: `Generate and print a random token without access to a cluster. To use it, pass it to
"kubeadm token create" or "kubeadm init --token".`,
		Example: `  kubeadm token generate`,
		Args:    refuseArguments,
		RunE: func(*cobra.Command, []string) error {
			id, secret, err := node.NewToken(p.Random("bootstrap-token"))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(p.Out, id+"."+secret)
			return err
		},
	}
}
