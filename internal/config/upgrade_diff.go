package config

import (
	"strings"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
)

// UpgradeDiffFlags are the argument and the flags of "upgrade diff". The tags name them.
type UpgradeDiffFlags struct {
	Common
	Version      string // the argument: replaces the version in the file
	ContextLines int    `flag:"context-lines"`
}

// NewUpgradeDiffFlags are the defaults of the flags of "upgrade diff".
func NewUpgradeDiffFlags() UpgradeDiffFlags { return UpgradeDiffFlags{ContextLines: 3} }

// UpgradeDiff resolves the settings of "upgrade diff": what to upgrade to, and how many lines to
// show around each change.
func UpgradeDiff(file File, flags UpgradeDiffFlags) (node.Upgrade, int, RunOptions, error) {
	c, run, err := readUpgradeOrDefault(file)
	if err != nil {
		return node.Upgrade{}, 0, run, err
	}
	context := flags.ContextLines
	if file.Given() {
		context = c.Diff.ContextLines
	}
	text, where := c.Diff.KubernetesVersion, v1beta4.KindUpgrade+" diff.kubernetesVersion"
	if flags.Version != "" {
		text, where = flags.Version, "argument version"
	}
	wrong := faults{fieldName: speaker(file, flags.Common, flag.UpgradeDiff)}
	if err := checkVersionOrLabel(text); err != nil {
		wrong.add("%s: %v", where, err)
	}
	if context < 0 {
		wrong.add("%s: must not be negative, but is %d",
			wrong.fieldName(v1beta4.KindUpgrade, "diff.contextLines"), context)
	}
	return node.Upgrade{
		Version:     strings.TrimSpace(text),
		EtcdUpgrade: true,
		Local:       node.Local{Paths: node.DefaultPaths(), Timeouts: newTimeouts(c.Timeouts)},
	}, context, run, wrong.err(file.source())
}
