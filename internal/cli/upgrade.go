package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/untrusted"
)

func (p *program) upgradeCommand() *cobra.Command {
	c := newGroup("upgrade", "Upgrade a cluster to another Kubernetes version",
		p.upgradePlanCommand(), p.upgradeApplyCommand(), missingUpgradeCommand("diff"),
		p.upgradeNodeCommand())
	c.Long = `Upgrade a cluster to another Kubernetes version: "plan" lists the versions, "apply" upgrades the first
control plane node and the cluster, "node" upgrades the other nodes.`
	return c
}

// missingUpgradeCommand is a command that is not implemented yet. It fails with a clear error,
// whatever its arguments: after an unknown command a user would have to guess whether something was
// changed. It is hidden from help.
func missingUpgradeCommand(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "Not implemented yet",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return problem.New("",
				fmt.Errorf("this kubeadm does not have %q yet; nothing was read or changed",
					c.CommandPath()),
				"list the versions that the cluster can be upgraded to: kubeadm upgrade plan")
		},
	}
}

// checkOptionalVersion is an error for more than one argument.
func checkOptionalVersion(c *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return problem.New("",
		fmt.Errorf("%s takes at most one version, but got %d arguments: %s",
			c.CommandPath(), len(args), untrusted.Line(strings.Join(args, " "))),
		"name one version, such as "+release.DefaultTool)
}
