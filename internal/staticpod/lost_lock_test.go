package staticpod_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/state"
)

// A run that has lost the lock of the cluster restores nothing beside the node that holds it now. The
// record stays, and the same run with the lock resumes.
func TestLostLockIsNotRolledBack(t *testing.T) {
	w := newMachine(t)
	w.RemoteAPIServer = true
	var suspended atomic.Int64
	clock := w.Clock
	w.Clock = func() time.Time { return clock().Add(time.Duration(suspended.Load())) }
	broken := true
	w.CrashLog = func(component string, manifest []byte) string {
		if broken && component == scheduler && strings.Contains(string(manifest), "scheduler:v2") {
			return "out of memory"
		}
		return ""
	}
	in := &interruptingWorld{World: w, at: "/etc/kubernetes/manifests/kube-scheduler.yaml",
		interrupt: func() {
			suspended.Add(int64(10 * time.Minute))
			lease, holder := &coordinationv1.Lease{}, "cp2"
			lease.APIVersion, lease.Kind = "coordination.k8s.io/v1", "Lease"
			lease.Namespace, lease.Name = "kube-system", clusterlock.LeaseName
			lease.Spec.HolderIdentity = &holder
			if err := w.PutObject(lease); err != nil {
				t.Error(err)
			}
		}}
	e := engine.New(engine.Env{World: in, Emit: func(engine.Event) {}})
	lock := clusterlock.Lock{Node: "cp1", As: []state.Identity{{}}}
	err := lock.Hold(t.Context(), e, func(ctx context.Context, e *engine.Env) error {
		_, err := newReplacement().Replace(ctx, e, newManifests("v2")...)
		return err
	})
	if !errors.Is(err, clusterlock.ErrLost) || imageVersions(w) != "v2 v2 v2 v2" ||
		!strings.Contains(err.Error(), "no manifest was restored") {
		t.Errorf("%s: %v", imageVersions(w), err)
	}
	broken = false
	out := runReplace(t.Context(), w, newManifests("v2")...)
	if out.err != nil || countRunning(t, w) != 4 {
		t.Errorf("resumed: %d run, %v", countRunning(t, w), out.err)
	}
}
