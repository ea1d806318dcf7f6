package cli

import (
	"github.com/spf13/cobra"

	"kubeadm/internal/flag"
	"kubeadm/internal/node"
)

func (p *program) configCommand() *cobra.Command {
	c := newGroup("config", "Work with the configuration of a cluster",
		newGroup("images", "Work with the images of a cluster", p.configImagesList(), p.configImagesPull()),
		p.configMigrate(), p.configPrint(), p.configValidate())
	// Nothing here asks a cluster. The flag is accepted since scripts give it.
	kubeconfig := node.DefaultPaths().Kubeconfig("admin.conf")
	values{flag.Kubeconfig: &kubeconfig}.bind(c.PersistentFlags())
	return c
}
