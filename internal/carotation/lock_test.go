package carotation

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// A node whose lock another node has taken over changes nothing more.
func TestLostLock(t *testing.T) {
	w := fake.New()
	w.RemoteAPIServer = true
	start := time.Now()
	var passed atomic.Int64
	w.Clock = func() time.Time { return start.Add(time.Duration(passed.Load())) }
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	held, err := clusterlock.Lock{Node: "cp1", As: []state.Identity{{}}}.Acquire(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	lease, holder := &coordinationv1.Lease{}, "cp2"
	lease.APIVersion, lease.Kind = "coordination.k8s.io/v1", "Lease"
	lease.Namespace, lease.Name = "kube-system", clusterlock.LeaseName
	lease.Spec.HolderIdentity = &holder
	if err := w.PutObject(lease); err != nil {
		t.Fatal(err)
	}
	passed.Store(int64(time.Minute)) // a renewal is due
	for deadline := time.Now().Add(time.Minute); held.Err() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the lock is not lost")
		}
	}
	m := machine{Rotation: &Rotation{ID: "a", Stage: Trust}, node: &node.Node{}, e: e, held: held}
	before := len(w.Objects)
	for name, step := range map[string]func() error{
		"begin":             func() error { return m.begin(t.Context(), Undo, Options{}) },
		"bringControlPlane": func() error { return m.bringControlPlane(t.Context(), Undo) },
		"recordCompletion":  func() error { return m.recordCompletion(t.Context()) },
		"complete":          func() error { return m.complete(t.Context(), Undo) },
	} {
		if err := step(); err == nil || !strings.Contains(err.Error(), "lost the lock") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(w.Objects) != before {
		t.Errorf("there are %d objects and were %d", len(w.Objects), before)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
