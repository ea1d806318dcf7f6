package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/untrusted"
)

func newUpgradeCommand(p *program) *cobra.Command {
	c := newGroup("upgrade", "Upgrade a cluster to a newer Kubernetes version",
		newUpgradePlanCommand(p), newUpgradeApplyCommand(p), newUpgradeDiffCommand(p),
		newUpgradeNodeCommand(p))
	c.Long = `Upgrade a cluster to a newer Kubernetes version. "plan" lists the available versions, and "diff" shows what would
change. "apply" upgrades the cluster-wide components and one control plane node. Afterwards, run "upgrade node" on
each of the other nodes in turn, and then upgrade the kubelet on every node.`
	return c
}

// checkOptionalVersion is an error for more than one argument.
func checkOptionalVersion(c *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return problem.New(fmt.Errorf("%s takes at most one version, but got %d arguments: %s",
		c.CommandPath(), len(args), untrusted.Line(strings.Join(args, " "))),
		"name one version, such as "+release.DefaultTool)
}
