package worldtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Await checks how a world waits for a Condition.
func Await(t *testing.T, w world.World) {
	missing := errors.New("the last error")
	t.Run("until it holds", func(t *testing.T) {
		checks := 0
		err := w.Await(newContext(t), newCondition(time.Minute, func() error {
			if checks++; checks < 3 {
				return missing
			}
			return nil
		}))
		if err != nil || checks != 3 {
			t.Errorf("after %d checks: %v; want 3 checks and no error", checks, err)
		}
	})
	t.Run("until the timeout", func(t *testing.T) {
		err := w.Await(newContext(t),
			newCondition(300*time.Millisecond, func() error { return missing }))
		if !errors.Is(err, missing) || !strings.Contains(err.Error(), "the test condition") {
			t.Errorf("got %v, want the condition's name and the last error", err)
		}
	})
	t.Run("until a permanent error", func(t *testing.T) {
		checks := 0
		err := w.Await(newContext(t),
			newCondition(time.Minute, func() error { checks++; return world.Permanent(missing) }))
		if !errors.Is(err, missing) || checks != 1 {
			t.Errorf("after %d checks: %v; want one check and its error", checks, err)
		}
	})
	t.Run("until the context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(newContext(t))
		err := w.Await(ctx, newCondition(time.Minute, func() error { cancel(); return missing }))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want an error that is context.Canceled", err)
		}
	})
	t.Run("with a reader", func(t *testing.T) {
		c := world.Condition{Name: "a world", Timeout: time.Minute,
			Check: func(_ context.Context, r state.Reader) error {
				if r == nil || r.Now().IsZero() {
					return missing
				}
				return nil
			}}
		if err := w.Await(newContext(t), c); err != nil {
			t.Error(err)
		}
	})
}

func newCondition(limit time.Duration, check func() error) world.Condition {
	return world.Condition{Name: "the test condition", Timeout: limit,
		Check: func(context.Context, state.Reader) error { return check() }}
}
