package journal_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
)

// restarting is a machine whose API server answers only reads that are retried.
type restarting struct {
	*fake.World
	unretried int
}

func (w *restarting) Object(ctx context.Context,
	ref state.Ref) (*unstructured.Unstructured, error) {
	if world.RetryLimit(ctx) == 0 {
		w.unretried++
		return nil, errors.New("connection refused")
	}
	return w.World.World.Object(ctx, ref)
}

func (w *restarting) Do(ctx context.Context, c change.Change) error {
	return w.World.World.Do(ctx, c)
}

func TestInverseIsReadWithRetries(t *testing.T) {
	machine := &restarting{World: fake.New()}
	w := opened(t, machine, &journal.Memory{}, journal.Run{Command: "init"})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "s"}}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	e := engine.New(engine.Env{
		World: w, Undoer: w, Emit: func(engine.Event) {},
		Local: node.Local{Timeouts: node.Timeouts{KubernetesAPI: time.Minute}},
	})
	w.Mark()
	if err := e.Do(t.Context(), change.ApplyObject{Object: secret}); err != nil ||
		machine.unretried > 0 {
		t.Errorf("%v; %d reads were not retried", err, machine.unretried)
	}
}
