package clusterlock_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/real"
	"kubeadm/internal/world/worldtest/plane"
)

// With a real API server, nodes that acquire the lock at the same time get it one after the other
// and leave no Lease.
func TestLockWithRealAPIServer(t *testing.T) {
	a := plane.StartAPIServer(t)
	w := real.New()
	var holders, maxHolders, done atomic.Int64
	var nodes sync.WaitGroup
	for i := range 4 {
		nodes.Go(func() {
			e := engine.New(engine.Env{
				World: w, Local: node.Local{Timeouts: node.Timeouts{KubernetesAPI: time.Minute}},
				Emit: func(engine.Event) {},
			})
			lock := clusterlock.Lock{
				Node: fmt.Sprint("cp", i), Purpose: "testing", As: []state.Identity{a.Admin},
				Timeout: time.Minute,
			}
			err := lock.Hold(t.Context(), e, func(context.Context, *engine.Env) error {
				maxHolders.Store(max(maxHolders.Load(), holders.Add(1)))
				time.Sleep(100 * time.Millisecond)
				holders.Add(-1)
				done.Add(1)
				return nil
			})
			if err != nil {
				t.Errorf("cp%d: %v", i, err)
			}
		})
	}
	nodes.Wait()
	if maxHolders.Load() != 1 || done.Load() != 4 {
		t.Errorf("%d nodes held the lock, up to %d at the same time", done.Load(),
			maxHolders.Load())
	}
	left, err := w.List(t.Context(), state.Query{
		GVK: clusterlock.LeaseKind(), Namespace: "kube-system",
		FieldSelector: "metadata.name=" + clusterlock.LeaseName, As: a.Admin,
	})
	if err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
