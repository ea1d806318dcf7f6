// Package worldtest has test suites for implementations of world.World, one for each subject. The
// simulated and the real world pass the same suites, so that tests with the simulated one are
// meaningful.
package worldtest

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// newContext returns a context with a timeout, so that a world that hangs fails its suite.
func newContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// mustDo carries out a change and checks that it is done then.
func mustDo(t *testing.T, w world.World, c change.Change) {
	t.Helper()
	ctx := newContext(t)
	if err := w.Do(ctx, c); err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	wantDone(t, w, c, true)
}

func wantDone(t *testing.T, w world.World, c change.Change, want bool) {
	t.Helper()
	done, err := c.Done(newContext(t), w)
	if err != nil {
		t.Fatalf("Done of %s: %v", c, err)
	}
	if done != want {
		t.Errorf("%s: done is %v, want %v", c, done, want)
	}
}

// wantDoError checks that a change fails.
func wantDoError(t *testing.T, w world.World, c change.Change) {
	t.Helper()
	if err := w.Do(newContext(t), c); err == nil {
		t.Errorf("%s: want an error", c)
	}
}

// doAndUndo carries out a change and then its inverse.
func doAndUndo(t *testing.T, w world.World, c change.Change) {
	t.Helper()
	back, err := c.Inverse(newContext(t), w)
	if err != nil {
		t.Fatalf("inverse of %s: %v", c, err)
	}
	mustDo(t, w, c)
	mustDo(t, w, back)
}

func wantNotExist(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an error that is fs.ErrNotExist", err)
	}
}

// unknownChange is a change that no world supports.
type unknownChange struct{ change.Change }

// Clock checks that the clock does not go back.
func Clock(t *testing.T, w world.World) {
	last := w.Now()
	if last.IsZero() {
		t.Fatal("the time is zero")
	}
	for range 100 {
		now := w.Now()
		if now.Before(last) {
			t.Fatalf("the clock went back from %s to %s", last, now)
		}
		last = now
	}
}

// UnknownChanges checks that an unknown change is an error.
func UnknownChanges(t *testing.T, w world.World) {
	if err := w.Do(newContext(t),
		unknownChange{change.MakeDir{Path: "/kubeadm-contract-never"}}); err == nil {
		t.Error("an unknown change: want an error")
	}
}
