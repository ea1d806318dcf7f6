package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// slowAPIServer reports three times that a read still waits.
type slowAPIServer struct {
	*fake.World
	limit       time.Duration // of the last read
	hasDeadline bool          // of the last list
}

func (w *slowAPIServer) Object(ctx context.Context, _ state.Ref) (*unstructured.Unstructured, error) {
	w.limit = world.RetryLimit(ctx)
	for _, port := range []string{"40001", "40002", "40003"} {
		world.ReportProgress(ctx, "still waiting: read tcp 192.0.2.1:%s: refused", port)
	}
	return nil, nil
}

func (w *slowAPIServer) List(ctx context.Context, _ state.Query) ([]unstructured.Unstructured, error) {
	w.limit = world.RetryLimit(ctx)
	_, w.hasDeadline = ctx.Deadline()
	world.ReportProgress(ctx, "still waiting: refused")
	world.ReportListing(ctx, "Node", 500)
	world.ReportListing(ctx, "Node", 1000)
	return nil, nil
}

// A list has no fixed time, as it may have any number of pages.
func TestListHasNoFixedTime(t *testing.T) {
	w := &slowAPIServer{World: fake.New()}
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) {}})
	e.Local.Timeouts.KubernetesAPI = time.Minute
	if _, err := e.List(t.Context(), state.Query{}); err != nil || w.limit != time.Minute || w.hasDeadline {
		t.Errorf("retried for %v, with a deadline: %t, %v", w.limit, w.hasDeadline, err)
	}
}

// Each report of how far a list is is shown, and is no warning.
func TestListShowsHowFarItIs(t *testing.T) {
	var shown []string
	e := engine.New(engine.Env{World: &slowAPIServer{World: fake.New()},
		Emit: func(e engine.Event) { shown = append(shown, string(e.Kind)+": "+e.Text) }})
	if _, err := e.List(t.Context(), state.Query{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"warning: still waiting: refused", "message: still listing Node objects: 500 so far",
		"message: still listing Node objects: 1000 so far"}
	if !slices.Equal(shown, want) {
		t.Errorf("shown: %q", shown)
	}
}

func TestReadsAreRetriedWithOneWarning(t *testing.T) {
	warned := 0
	w := &slowAPIServer{World: fake.New()}
	e := engine.New(engine.Env{World: w, Emit: func(engine.Event) { warned++ }})
	e.Local.Timeouts.KubernetesAPI = time.Minute
	if _, err := e.Reader().Object(t.Context(), state.Ref{}); err != nil || w.limit != time.Minute {
		t.Errorf("retried for %v, %v", w.limit, err)
	}
	if warned != 1 {
		t.Errorf("there are %d warnings", warned)
	}
	own := world.WithRetry(t.Context(), time.Second)
	if _, err := e.Object(own, state.Ref{}); err != nil || w.limit != time.Second {
		t.Errorf("in a context with a limit of one second, retried for %v, %v", w.limit, err)
	}
}

// A wait reports before a long pause that the server asks for, and not only after it.
func TestLongPauseIsReported(t *testing.T) {
	var shown []string
	e := engine.New(engine.Env{World: fake.New(), Emit: func(e engine.Event) {
		if e.Kind == engine.Info {
			shown = append(shown, e.Text)
		}
	}})
	checks := 0
	err := e.Await(t.Context(), world.Condition{Name: "an answer", Timeout: time.Minute, External: true,
		Check: func(context.Context, state.Reader) error {
			if checks++; checks == 1 {
				return world.RetryAfter(errors.New("busy"), 30*time.Second)
			}
			return nil
		}})
	if want := []string{"still waiting for an answer: busy"}; err != nil || !slices.Equal(shown, want) {
		t.Errorf("shown: %q, %v", shown, err)
	}
}
