package staticpod

import (
	"context"
	"errors"
	"fmt"
	"path"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// PrepareEtcd is done before this machine's etcd member is replaced: it waits until the others have a
// quorum without it, and saves a snapshot.
func PrepareEtcd(ctx context.Context, e *engine.Env, n *node.Node) error {
	if err := e.Await(ctx, preflight.QuorumWithout(n, e.Local.IgnoredChecks)); err != nil {
		return err
	}
	via := etcdcluster.LocalClient(n.Paths, n.ClientURL())
	if _, err := SaveEtcdSnapshot(ctx, e, n, via); err != nil {
		return fmt.Errorf("before etcd is replaced: %w", err)
	}
	return nil
}

// snapshotFile is the name of a snapshot in its backup directory.
const snapshotFile = "snapshot.db"

// SaveEtcdSnapshot saves a snapshot of the etcd member at via to a new backup directory and returns
// the path of the file. Of the earlier snapshots the newest two are kept.
func SaveEtcdSnapshot(ctx context.Context, e *engine.Env, n *node.Node,
	via state.Etcd) (string, error) {
	dir, err := BackupDir(ctx, e, n.Paths.Tmp(), EtcdBackup)
	if err != nil {
		return "", err
	}
	file := path.Join(dir, snapshotFile)
	e.Say("saving a snapshot of etcd to %q", file)
	if err := e.Do(ctx,
		change.MakeDir{Path: dir, Mode: 0o700},
		change.SaveSnapshot{Path: file, Via: via}); err != nil {
		// An empty directory must not count as a snapshot.
		return "", errors.Join(err, e.Do(context.WithoutCancel(ctx),
			change.Remove{Path: dir, OnlyEmpty: true}))
	}
	// Only a snapshot that is saved replaces another one.
	return file, PruneBackups(ctx, e, n.Paths.Tmp(), EtcdBackup, maxEtcdBackups)
}
