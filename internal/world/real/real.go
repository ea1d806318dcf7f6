// Package real is the real world: this machine, its container runtime, etcd and the API server,
// each implemented in a package of its own.
package real

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdsnapshot"
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
		change.SetOwner, change.SetAccounts, change.SetService, change.EnableService,
		change.SetSysctl, change.SetModule, change.SetSwap, change.Unmount,
		change.RemoveControlGroup, change.RemoveInterface, change.RemovePacketRules,
		change.RemoveVirtualServers:
		return w.machine.Do(ctx, c)
	case change.PullImage, change.RemoveContainers, change.RemoveImage:
		return w.runtimes.Do(ctx, c)
	case change.SetMember, change.Defragment, change.CompactHistory, change.DisarmAlarm:
		return w.members.Do(ctx, c)
	case change.SaveSnapshot:
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
		return w.machine.WriteStream(c.Path,
			func(to io.Writer) error { return snapshot.Copy(ctx, to) }, w.members.CheckDatabase)
	case change.SaveArchive:
		return w.saveArchive(ctx, c)
	case change.ApplyObject, change.MutateObject, change.DeleteObject, change.LabelNode,
		change.EvictPod:
		return w.objects.Do(ctx, c)
	}
	return fmt.Errorf("the real world cannot carry out a %T", c)
}

// saveArchive encrypts while it reads the snapshot, of which no other copy is made.
func (w *World) saveArchive(ctx context.Context, c change.SaveArchive) error {
	free, err := w.machine.FreeSpace(filepath.Dir(c.Path))
	if err != nil {
		return fmt.Errorf("reading the free disk space: %w", err)
	}
	if err := c.CheckSpace(free); err != nil {
		return err
	}
	snapshot, err := w.machine.OpenFile(ctx, c.Snapshot)
	if err != nil {
		return err
	}
	defer func() { _ = snapshot.Close() }()
	return w.machine.WriteStream(c.Path, func(to io.Writer) error {
		return etcdsnapshot.WriteArchive(ctx, to, c.Protection, c.Manifest, snapshot)
	}, func(string) error { return nil }) // its digests are those of what was read
}

// ReadSnapshot verifies a snapshot and describes its database.
func (w *World) ReadSnapshot(ctx context.Context, path string) (etcdsnapshot.Info, error) {
	f, err := w.machine.OpenFile(ctx, path)
	if err != nil {
		return etcdsnapshot.Info{}, err
	}
	defer func() { _ = f.Close() }()
	size, sum, err := etcdsnapshot.Verify(ctx, f)
	if err != nil {
		return etcdsnapshot.Info{}, err
	}
	// The file that was verified, whatever is at its path now.
	info, err := w.members.ReadDatabase(ctx, w.machine.OpenedPath(f))
	info.Size, info.SHA256 = size, sum
	return info, err
}

// Await polls the condition.
func (w *World) Await(ctx context.Context, c world.Condition) error { return world.Poll(ctx, w, c) }

// WasCreated returns false: without a journal earlier runs are unknown.
func (w *World) WasCreated(string) bool { return false }
