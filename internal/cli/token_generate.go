package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/node"
)

func (p *program) tokenGenerate() *cobra.Command {
	return &cobra.Command{
		Use:   "generate",
		Short: "Print a new token without making it known to a cluster",
		Long: `Print a new, random token. No cluster is asked: the token is good for nothing until
"kubeadm token create" or "kubeadm init --token" makes it known to one.`,
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
