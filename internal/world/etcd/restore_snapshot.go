package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"

	"kubeadm/internal/change"
	"kubeadm/internal/untrusted"
)

// Restore creates the data directory dir from the snapshot of c. An existing dir must be empty; after an
// error, parts of it are left. etcd's function cannot be interrupted: if the context ends, it is left
// behind, writing to dir, for the rest of the process.
func Restore(ctx context.Context, c change.RestoreSnapshot, dir string) error {
	present, err := readRevision(c.Snapshot)
	if err != nil {
		return err
	}
	if c.Revision <= present {
		return fmt.Errorf("the snapshot has revision %d, so its data cannot begin at %d", present, c.Revision)
	}
	silent := clientv3.NewCtxClient(context.Background()).GetLogger() // discards everything
	done := make(chan error, 1)
	go func() {
		done <- snapshot.NewV3(silent).Restore(snapshot.RestoreConfig{
			SnapshotPath: c.Snapshot, OutputDataDir: dir,
			Name: c.Name, PeerURLs: []string{c.PeerURL}, InitialCluster: c.Name + "=" + c.PeerURL,
			InitialClusterToken: c.Token, RevisionBump: uint64(c.Revision - present), MarkCompacted: true,
		})
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-done:
		if err != nil {
			return fmt.Errorf("restoring etcd's data from %s: %w", c.Snapshot, untrusted.Error(err))
		}
		return nil
	}
}
