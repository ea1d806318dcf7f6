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

// Waits checks how a world waits.
func Waits(t *testing.T, w world.World) {
	missing := errors.New("the last thing seen")
	t.Run("until it holds", func(t *testing.T) {
		looks := 0
		err := w.Await(limited(t), condition(time.Minute, func() error {
			if looks++; looks < 3 {
				return missing
			}
			return nil
		}))
		if err != nil || looks != 3 {
			t.Errorf("after %d looks: %v; want 3 looks and no error", looks, err)
		}
	})
	t.Run("no longer than its limit", func(t *testing.T) {
		err := w.Await(limited(t), condition(300*time.Millisecond, func() error { return missing }))
		if !errors.Is(err, missing) || !strings.Contains(err.Error(), "tea to cool") {
			t.Errorf("got %v, want the condition's name and what was missing", err)
		}
	})
	t.Run("not for what is hopeless", func(t *testing.T) {
		looks := 0
		err := w.Await(limited(t), condition(time.Minute, func() error { looks++; return world.GiveUp(missing) }))
		if !errors.Is(err, missing) || looks != 1 {
			t.Errorf("after %d looks: %v; want one look and what was missing", looks, err)
		}
	})
	t.Run("not after the context's end", func(t *testing.T) {
		ctx, cancel := context.WithCancel(limited(t))
		err := w.Await(ctx, condition(time.Minute, func() error { cancel(); return missing }))
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want an error that is context.Canceled", err)
		}
	})
	t.Run("with itself at hand", func(t *testing.T) {
		c := world.Condition{Name: "a world", Timeout: time.Minute, Check: func(_ context.Context, r state.Reader) error {
			if r == nil || r.Now().IsZero() {
				return missing
			}
			return nil
		}}
		if err := w.Await(limited(t), c); err != nil {
			t.Error(err)
		}
	})
}

func condition(limit time.Duration, check func() error) world.Condition {
	return world.Condition{Name: "tea to cool", Timeout: limit, Check: func(context.Context, state.Reader) error { return check() }}
}
