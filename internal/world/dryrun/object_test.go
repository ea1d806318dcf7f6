package dryrun_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/dryrun"
	"kubeadm/internal/world/fake"
)

// deadServer is a machine with a kubeconfig whose API server does not answer.
type deadServer struct {
	*fake.World
	asked  int
	longer bool // a request was allowed to be retried
}

func (d *deadServer) Livez(ctx context.Context, _ state.Identity) error {
	d.asked++
	d.longer = d.longer || world.RetryLimit(ctx) > 0
	return errors.New("no route to host")
}

// A dry run of init on a machine with kubeconfigs must not wait for their API server at each object.
func TestDeadAPIServerIsAskedOnce(t *testing.T) {
	below := &deadServer{World: fake.New()}
	if err := below.World.Do(t.Context(), change.WriteFile{Path: as.Kubeconfig, Secret: true,
		Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	w := dryrun.New(below, "", dryrun.Paths{})
	if err := w.Await(t.Context(), world.Condition{Name: "the API server"}); err != nil {
		t.Fatal(err)
	}
	ctx := world.WithRetry(t.Context(), time.Minute)
	for range 3 {
		_, err := w.Object(ctx, state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("Pod"),
			Namespace: "kube-system", Name: "a", As: as})
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want an object that does not exist", err)
		}
		if pods := listPods(t, w); len(pods) > 0 {
			t.Errorf("got %v", pods)
		}
	}
	if below.asked != 1 || below.longer {
		t.Errorf("the API server was asked %d times, with retries: %t", below.asked, below.longer)
	}
}

// What a phase compares before and after a change, the change does not touch.
func TestChangedObjectKeepsIdentityAndStatus(t *testing.T) {
	below := fake.New()
	below.RemoteAPIServer = true
	if err := below.AddObjects(`{apiVersion: v1, kind: Node, metadata: {name: worker1, uid: first},
  status: {addresses: [{type: Hostname, address: worker1}]}}`); err != nil {
		t.Fatal(err)
	}
	w := dryrun.New(below, "", dryrun.Paths{})
	label := change.LabelAndTaintNode{Name: "worker1", Labels: map[string]string{"a": "b"}, As: as}
	if err := w.Do(t.Context(), label); err != nil {
		t.Fatal(err)
	}
	after, err := w.Object(t.Context(), label.Ref())
	if err != nil {
		t.Fatal(err)
	}
	if _, hasStatus := after.Object["status"]; after.GetUID() != "first" || !hasStatus ||
		after.GetLabels()["a"] != "b" {
		t.Errorf("got %v", after.Object)
	}
}
