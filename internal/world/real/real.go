// Package real is the real world: this machine, its container runtime, etcd and the API server,
// each implemented in a package of its own.
package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/cri"
	"kubeadm/internal/world/etcd"
	"kubeadm/internal/world/kube"
)

// The embedded parts of the world, with the machine. They need different names.
type (
	runtimes = cri.Runtimes
	members  = etcd.Cluster
	objects  = kube.Cluster
)

// World is everything outside the process.
type World struct {
	machine
	runtimes
	*members
	*objects
}

// New returns the world of this process.
func New() *World {
	var m machine
	read := func(path string) ([]byte, error) { return m.ReadFile(context.Background(), path) }
	return &World{machine: m, runtimes: cri.Runtimes{Tail: m.Tail}, members: etcd.New(read),
		objects: kube.New(read)}
}

// Do carries out one change.
func (w *World) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.WriteFile, change.WriteKeyPair, change.MakeDir, change.MakeLink, change.Remove,
		change.Rename, change.SetOwner, change.SetAccounts, change.SetService, change.EnableService,
		change.SetSysctl, change.SetModule, change.SetSwap, change.Unmount,
		change.RemoveControlGroup, change.RemoveInterface, change.RemovePacketRules,
		change.RemoveVirtualServers:
		return w.machine.Do(ctx, c)
	case change.PullImage, change.RemoveContainers, change.RemoveImage:
		return w.runtimes.Do(ctx, c)
	case change.SetMember, change.Defragment, change.CompactHistory, change.DisarmAlarm:
		return w.members.Do(ctx, c)
	case change.SaveSnapshot:
		return w.saveSnapshot(ctx, c)
	case change.SaveArchive:
		return w.saveArchive(ctx, c)
	case change.RestoreSnapshot:
		return w.restoreSnapshot(ctx, c)
	case change.ApplyObject, change.MutateObject, change.DeleteObject, change.LabelAndTaintNode,
		change.EvictPod:
		return w.objects.Do(ctx, c)
	}
	return fmt.Errorf("the real world cannot carry out a %T", c)
}

func (w *World) saveSnapshot(ctx context.Context, c change.SaveSnapshot) error {
	snapshot, err := w.beginSnapshot(ctx, c.Via, c.Path, c.CheckSpace)
	if err != nil {
		return err
	}
	return w.machine.WriteStream(c.Path, func(to io.ReadWriteSeeker) error {
		if err := snapshot.Copy(ctx, to); err != nil {
			return err
		}
		return w.members.CheckDatabase(w.machine.OpenedPath(to))
	})
}

// saveArchive receives the snapshot into a file without a name, since the manifest, which describes it,
// precedes it in the archive.
func (w *World) saveArchive(ctx context.Context, c change.SaveArchive) error {
	snapshot, err := w.beginSnapshot(ctx, c.Via, c.Path, c.CheckSpace)
	if err != nil {
		return err
	}
	return w.machine.WriteStream(c.Path, func(to io.ReadWriteSeeker) error {
		return w.machine.WithUnnamedFile(c.Path, func(received io.ReadWriteSeeker) error {
			if err := snapshot.Copy(ctx, received); err != nil {
				return err
			}
			rewind := func() error { _, err := received.Seek(0, io.SeekStart); return err }
			if err := rewind(); err != nil {
				return err
			}
			m := c.Manifest
			if m.Snapshot, err = w.describeSnapshot(ctx, received); err != nil {
				return err
			}
			if err := rewind(); err != nil {
				return err
			}
			return etcdsnapshot.WriteArchive(ctx, to, c.Protection, m, received)
		})
	})
}

// beginSnapshot connects to etcd and returns an error if the disk is too small for what it would send.
func (w *World) beginSnapshot(ctx context.Context, via state.Etcd, path string,
	checkSpace func(size, free uint64) error) (*etcd.Snapshot, error) {
	snapshot, err := w.members.Snapshot(ctx, via)
	if err != nil {
		return nil, err
	}
	free, err := w.machine.FreeSpace(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("reading the free disk space: %w", err)
	}
	return snapshot, checkSpace(snapshot.Size, free)
}

// ReadSnapshot verifies a snapshot and describes its database.
func (w *World) ReadSnapshot(ctx context.Context, path string) (etcdsnapshot.Info, error) {
	f, err := w.machine.OpenFile(ctx, path)
	if err != nil {
		return etcdsnapshot.Info{}, err
	}
	defer func() { _ = f.Close() }()
	return w.describeSnapshot(ctx, f)
}

// describeSnapshot verifies a snapshot in an open file, whatever is at its path now.
func (w *World) describeSnapshot(ctx context.Context, f io.Reader) (etcdsnapshot.Info, error) {
	size, sum, err := etcdsnapshot.Verify(ctx, f)
	if err != nil {
		return etcdsnapshot.Info{}, err
	}
	info, err := w.members.ReadDatabase(ctx, w.machine.OpenedPath(f))
	info.Size, info.SHA256 = size, sum
	return info, err
}

// restoreSnapshot restores to a temporary directory, which a run that was killed may have left. The
// snapshot of an archive is there in clear text, beside it, as long as that takes.
func (w *World) restoreSnapshot(ctx context.Context, c change.RestoreSnapshot) error {
	part, extracted := c.Dir+".part", c.Dir+".snapshot"
	for _, left := range []string{part, extracted} {
		if err := w.machine.Do(ctx, change.Remove{Path: left}); err != nil {
			return err
		}
	}
	file, err := w.machine.Stat(ctx, c.Snapshot)
	if err != nil {
		return err
	}
	isArchive, err := w.isArchive(ctx, c.Snapshot)
	if err != nil {
		return err
	}
	needed := uint64(max(file.Size, 0))
	if isArchive {
		needed *= 2
	}
	free, err := w.machine.FreeSpace(filepath.Dir(c.Dir))
	if err != nil {
		return fmt.Errorf("reading the free disk space: %w", err)
	}
	if err := c.CheckSpace(needed, free); err != nil {
		return err
	}
	if isArchive {
		if err := w.extractSnapshot(ctx, c, extracted); err != nil {
			return err
		}
		c.Snapshot = extracted
	}
	err = etcd.Restore(ctx, c, part)
	withoutCancel := context.WithoutCancel(ctx)
	if isArchive {
		err = errors.Join(err, w.machine.Do(withoutCancel, change.Remove{Path: extracted}))
	}
	if err != nil {
		return errors.Join(err, w.machine.Do(withoutCancel, change.Remove{Path: part}))
	}
	return w.machine.Do(ctx, change.Rename{From: part, To: c.Dir})
}

func (w *World) isArchive(ctx context.Context, name string) (bool, error) {
	f, err := w.machine.OpenFile(ctx, name)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, etcdsnapshot.HeadLength)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return etcdsnapshot.IsArchive(head[:n]), err
}

// extractSnapshot writes the snapshot of an archive to a file that only root can read. The file appears
// when all digests of the archive have been verified.
func (w *World) extractSnapshot(ctx context.Context, c change.RestoreSnapshot, to string) error {
	f, err := w.machine.OpenFile(ctx, c.Snapshot)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return w.machine.WriteStream(to, func(to io.ReadWriteSeeker) error {
		archive, err := etcdsnapshot.OpenArchive(f, c.Key)
		if err == nil {
			_, err = archive.Read(ctx, to)
		}
		if err != nil {
			return err
		}
		return w.members.CheckDatabase(w.machine.OpenedPath(to))
	})
}

// Await polls the condition.
func (w *World) Await(ctx context.Context, c world.Condition) error { return world.Poll(ctx, w, c) }

// WasCreated returns false: without a journal earlier runs are unknown.
func (w *World) WasCreated(string) bool { return false }
