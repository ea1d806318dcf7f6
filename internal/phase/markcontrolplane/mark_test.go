package markcontrolplane_test

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
	"kubeadm/internal/phase/markcontrolplane"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// flapping is a cluster that does not answer every second request.
type flapping struct {
	*fake.World
	asked int
}

func (f *flapping) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	if f.asked++; f.asked%2 == 0 {
		return nil, errors.New("connection refused")
	}
	return f.World.Object(ctx, ref)
}

func (f *flapping) Await(ctx context.Context, c world.Condition) error {
	return world.Poll(ctx, f, c)
}

func TestMarkBehindFlappingLoadBalancer(t *testing.T) {
	f := &flapping{World: fake.New()}
	f.RemoteAPIServer = true
	made := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "cp2",
			Labels: map[string]string{corev1.LabelHostname: "cp2"}}}
	if err := f.World.Do(t.Context(), change.ApplyObject{Object: made}); err != nil {
		t.Fatal(err)
	}
	n := &node.Node{Local: node.Local{Name: "cp2", Role: node.ControlPlane}}
	n.Timeouts.KubernetesAPI = time.Minute
	e := engine.New(engine.Env{World: f, Local: n.Local, Emit: func(engine.Event) {},
		Node:  func(context.Context) (*node.Node, error) { return n, nil },
		Admin: func(context.Context) (state.Identity, error) { return state.Identity{}, nil },
	})
	if err := engine.Run(t.Context(), e, []engine.Phase{markcontrolplane.Phase},
		engine.Selection{}); err != nil {
		t.Fatal(err)
	}
	u, err := f.World.Object(t.Context(), change.LabelAndTaintNode{Name: "cp2"}.Ref())
	if err != nil {
		t.Fatal(err)
	}
	for label := range node.ControlPlaneLabels() {
		if _, ok := u.GetLabels()[label]; !ok {
			t.Errorf("label %s is missing", label)
		}
	}
}
