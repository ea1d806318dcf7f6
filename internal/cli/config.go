package cli

import (
	"github.com/spf13/cobra"

	"kubeadm/internal/flag"
	"kubeadm/internal/node"
)

func newConfigCommand(p *program) *cobra.Command {
	c := newGroup("config", "Manage kubeadm configuration files",
		newGroup("images", "List or pull the control plane images", newImagesListCommand(p),
			newImagesPullCommand(p)),
		newMigrateCommand(p), newPrintDefaultsCommand(p), newValidateCommand(p))
	// No command here accesses a cluster. Scripts set the flag all the same.
	kubeconfig := node.DefaultPaths().Kubeconfig("admin.conf")
	flagTargets{flag.Kubeconfig: &kubeconfig}.bind(c.PersistentFlags())
	return c
}
