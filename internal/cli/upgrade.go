package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"kubeadm/internal/problem"
)

// upgradeCommand fails with a clear error, whatever its arguments: after an unknown command a user
// would have to guess whether something was changed. It is hidden from help.
func upgradeCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "upgrade",
		Short:              "Not implemented: this program does not upgrade clusters yet",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return problem.New("", errors.New("this kubeadm does not upgrade clusters yet; nothing was changed"),
				"kubeadm --help lists its commands")
		},
	}
}
