package rotateca

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/memory"
)

// A node whose lock another node has taken over changes nothing more.
func TestLostLock(t *testing.T) {
	w := fake.New()
	w.RemoteAPIServer = true
	start := time.Now()
	var passed atomic.Int64
	w.Clock = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	lock := clusterlock.Lock{Node: "cp1", As: []state.Identity{{}}}
	err := lock.Hold(t.Context(), e, func(ctx context.Context, e *engine.Env) error {
		lease, holder := &coordinationv1.Lease{}, "cp2"
		lease.APIVersion, lease.Kind = "coordination.k8s.io/v1", "Lease"
		lease.Namespace, lease.Name = "kube-system", clusterlock.LeaseName
		lease.Spec.HolderIdentity = &holder
		if err := w.PutObject(lease); err != nil {
			t.Fatal(err)
		}
		passed.Store(int64(10 * time.Minute)) // as if the process had been suspended
		m := machine{State: &rotation.State{ID: "a", Stage: rotation.Trust}, e: e,
			node: &node.Node{Local: node.Local{Paths: node.DefaultPaths()}}}
		w.Files[rotationDir(m.node.Paths)] = memory.File{Mode: fs.ModeDir | 0o700}
		if err := w.PutObject(manifest.NewCARotation("x")); err != nil {
			t.Fatal(err)
		}
		objects, files := len(w.Objects), len(w.Files)
		for name, step := range map[string]func() error{
			"begin":             func() error { return m.begin(ctx, rotation.Undo, rotation.Options{}) },
			"bringControlPlane": func() error { return m.bringControlPlane(ctx, rotation.Undo) },
			"recordCompletion":  func() error { return m.recordCompletion(ctx) },
			"complete":          func() error { return m.complete(ctx, rotation.Undo) },
		} {
			if err := step(); !errors.Is(err, clusterlock.ErrLost) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(w.Objects) != objects || len(w.Files) != files {
			t.Errorf("there are %d objects and %d files, and were %d and %d", len(w.Objects),
				len(w.Files), objects, files)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
