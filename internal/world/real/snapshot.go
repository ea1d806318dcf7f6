package real

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"kubeadm/internal/change"
)

// saveSnapshot saves a snapshot of etcd if there is enough disk space.
func (w *World) saveSnapshot(ctx context.Context, c change.SaveSnapshot) error {
	snapshot, err := w.members.Snapshot(ctx, c.Via)
	if err != nil {
		return err
	}
	free, err := w.machine.FreeSpace(filepath.Dir(c.Path))
	if err != nil {
		return fmt.Errorf("reading the free disk space: %w", err)
	}
	if err := c.CheckSpace(snapshot.Size, free); err != nil {
		return err
	}
	return w.machine.WriteStream(c.Path, func(to io.Writer) error { return snapshot.Copy(ctx, to) })
}
