package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"kubeadm/internal/problem"
)

// upgradeCommand says that there is none, whatever it is given: who upgrades a cluster must not
// have to guess from an unknown command whether something was done. It is not in the help.
func upgradeCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "upgrade",
		Short:              "Not there: this program does not upgrade clusters yet",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return problem.New("", errors.New("this kubeadm does not upgrade clusters yet; nothing was looked at or changed"),
				"kubeadm --help lists what it does")
		},
	}
}

// alphaCommand is the place of commands that are on trial; scripts ask for its help to learn which there are.
func alphaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "alpha",
		Short: "Commands on trial; there are none at present",
		Long:  "Commands on trial, which may change or go without notice. There are none at present.",
	}
}
