package renew

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

// stuckLists never answers a list.
type stuckLists struct{ *fake.World }

func (stuckLists) List(ctx context.Context, _ state.Query) ([]unstructured.Unstructured, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Where the Nodes cannot be read again, all are reported soon, with a warning.
func TestRemovedNodesCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var warnings []string
		e := engine.New(engine.Env{World: stuckLists{fake.New()}, Emit: func(e engine.Event) {
			if e.Kind == engine.Warned {
				warnings = append(warnings, e.Text)
			}
		}})
		begun := time.Now()
		left := (&silentNodes{}).deleteRemoved(t.Context(), e, []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}})
		if took := time.Since(begun); len(left) != 1 || took > removedTime {
			t.Errorf("%d nodes are left after %s", len(left), took)
		}
		if len(warnings) != 1 || !strings.Contains(warnings[0], "deadline exceeded") {
			t.Errorf("the warnings are %q", warnings)
		}
	})
}

func TestRemovedNodesAreNotReported(t *testing.T) {
	w := fake.New()
	w.RemoteAPIServer = true
	if err := w.AddObjects("{apiVersion: v1, kind: Node, metadata: {name: w1}}"); err != nil {
		t.Fatal(err)
	}
	left := (&silentNodes{}).deleteRemoved(t.Context(), engine.New(engine.Env{World: w}), []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "w1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "removed"}}})
	if len(left) != 1 || left[0].Name != "w1" {
		t.Errorf("left are %v", left)
	}
}
