// Package real is the world as it is: this machine, its container runtime, etcd and the API
// server behind one door. It only joins them; what each does is in its own package.
package real

import (
	"context"
	"fmt"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
	"kubeadm/internal/world/cri"
	"kubeadm/internal/world/etcd"
	"kubeadm/internal/world/kube"
	"kubeadm/internal/world/linux"
)

// The parts of the world; each brings the reading of its own subjects.
type (
	machine  = linux.Machine
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

// New is the world as this process sees it.
func New() *World {
	var m linux.Machine
	read := func(path string) ([]byte, error) { return m.ReadFile(context.Background(), path) }
	return &World{machine: m, runtimes: cri.Runtimes{Tail: m.Tail}, members: etcd.New(read), objects: kube.New(read)}
}

// Do carries out one change.
func (w *World) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.WriteFile, change.MakeDir, change.Remove, change.SetOwner, change.SetAccounts,
		change.SetService, change.Unmount:
		return w.machine.Do(ctx, c)
	case change.PullImage, change.RemoveContainers:
		return w.runtimes.Do(ctx, c)
	case change.SetMember:
		return w.members.Do(ctx, c)
	case change.SaveSnapshot:
		return w.saveSnapshot(ctx, c)
	case change.ApplyObject, change.MutateObject, change.DeleteObject, change.LabelNode:
		return w.objects.Do(ctx, c)
	}
	return fmt.Errorf("no world knows how to carry out a %T", c)
}

// Await looks until the condition holds.
func (w *World) Await(ctx context.Context, c world.Condition) error { return world.Poll(ctx, w, c) }

// Made says no: without a journal nobody knows what an earlier run made.
func (w *World) Made(string) bool { return false }
