package real

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"kubeadm/internal/change"
)

// saveSnapshot copies etcd's data to a file, if there is space for them.
func (w *World) saveSnapshot(ctx context.Context, c change.SaveSnapshot) error {
	from, err := w.members.Snapshot(ctx, c.Via)
	if err != nil {
		return err
	}
	free, err := w.machine.FreeSpace(filepath.Dir(c.Path))
	if err != nil {
		return fmt.Errorf("looking for free disk space: %w", err)
	}
	if err := c.CheckSpace(from.Size, free); err != nil {
		return err
	}
	return w.machine.WriteFrom(c.Path, func(to io.Writer) error { return from.Copy(ctx, to) })
}
