package laws

import (
	"context"
	"net/url"
	"sync"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// refusedReads is a world whose API server is down whenever it is read for the first time: it
// refuses the first read of each object, unless that is retried. A wait asks again by itself.
type refusedReads struct {
	world.World
	mu      sync.Mutex
	refused map[string]bool
}

func (w *refusedReads) refuse(ctx context.Context, read string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if world.RetryLimit(ctx) > 0 || w.refused[read] {
		return nil
	}
	w.refused[read] = true
	return &url.Error{Op: "Get", URL: "https://192.0.2.10:6443", Err: syscall.ECONNREFUSED}
}

func (w *refusedReads) Object(ctx context.Context,
	ref state.Ref) (*unstructured.Unstructured, error) {
	if err := w.refuse(ctx, ref.String()); err != nil {
		return nil, err
	}
	return w.World.Object(ctx, ref)
}

func (w *refusedReads) List(ctx context.Context,
	q state.Query) ([]unstructured.Unstructured, error) {
	if err := w.refuse(ctx, q.GVK.Kind+" "+q.LabelSelector); err != nil {
		return nil, err
	}
	return w.World.List(ctx, q)
}

func (w *refusedReads) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, w.World) }
	return w.World.Await(ctx, c)
}

// A run outlasts restarts of the API server: each read of it is retried, or waited for.
func TestRunOutlastsRefusedReads(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		r := s.newRun(s.machine(t))
		r.observe = func(w world.World) world.World {
			return &refusedReads{World: w, refused: map[string]bool{}}
		}
		r.mustSucceed(t)
	})
}
