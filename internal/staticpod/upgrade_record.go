package staticpod

import (
	"context"
	"path"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// An upgrade writes the version of the cluster to a file before it replaces the first static Pod of
// this node, and removes the file at its end. Otherwise a node whose static Pods are all replaced,
// but not the configuration of its kubelet, would look like one that was never upgraded.
func upgradeRecord(p node.Paths) string { return path.Join(p.Journal(), "upgrading") }

// BeginUpgrade records that this node is being upgraded to a version.
func BeginUpgrade(p node.Paths, version string) change.Change {
	return change.WriteFile{Path: upgradeRecord(p), Data: []byte(version + "\n"), Mode: 0o600,
		Secret: true} // not printed by a dry run: it tells the user nothing
}

// EndUpgrade records that the upgrade of this node has finished.
func EndUpgrade(p node.Paths) change.Change { return change.Remove{Path: upgradeRecord(p)} }

// EndFailedUpgrade removes the record of an upgrade that has failed, if no replacement of a static Pod
// is left to resume: all of them were rolled back. Otherwise it keeps the record, as the next run
// resumes the upgrade.
func EndFailedUpgrade(ctx context.Context, e *engine.Env, n *node.Node) error {
	for _, component := range Components(n) {
		left, err := readRecord(ctx, e, n.Paths, component)
		if err != nil || left != nil {
			return err
		}
	}
	return e.Do(ctx, EndUpgrade(n.Paths))
}

// UnfinishedUpgrade returns the version of an upgrade of this node that was interrupted; empty if none was.
func UnfinishedUpgrade(ctx context.Context, r state.Reader, p node.Paths) (version string, err error) {
	data, err := state.ReadOptional(ctx, r, upgradeRecord(p))
	return strings.TrimSuffix(string(data), "\n"), err
}

// IsUpgradeUnfinished reports whether an upgrade of this node to a version was interrupted.
func IsUpgradeUnfinished(ctx context.Context, r state.Reader, p node.Paths,
	version string) (bool, error) {
	unfinished, err := UnfinishedUpgrade(ctx, r, p)
	return unfinished == version, err
}
