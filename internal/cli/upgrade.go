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
	c := group("upgrade", "Upgrade a cluster to another Kubernetes version",
		p.upgradePlanCommand(),
		unfinishedUpgradeCommand("apply"), unfinishedUpgradeCommand("diff"),
		unfinishedUpgradeCommand("node"))
	c.Long = `Upgrade a cluster to another Kubernetes version. So far there is only "plan", which
shows the versions that a cluster can be upgraded to and changes nothing.`
	return c
}

// unfinishedUpgradeCommand is a command that does not exist yet. Whatever it is given it says so:
// an error about an unknown command would leave users guessing whether something was done. Help
// does not list it.
func unfinishedUpgradeCommand(name string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              "Not there yet",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return problem.New("",
				fmt.Errorf("this kubeadm does not have %q yet; nothing was read or changed",
					c.CommandPath()),
				"kubeadm upgrade plan shows the versions that the cluster can be upgraded to")
		},
	}
}

// optionalVersion refuses more than one argument.
func optionalVersion(c *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return problem.New("",
		fmt.Errorf("%s takes one version at most, but was given %d arguments: %s",
			c.CommandPath(), len(args), untrusted.Line(strings.Join(args, " "))),
		"name one version, such as "+release.DefaultTool)
}
