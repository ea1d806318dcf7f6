// Package worldtest is the contract of a world as tests, one suite for each subject: the world in
// memory and the real one pass the same suites, so that what tests are run in does not lie.
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

// limited is a bounded context, so that a world that hangs fails its suite.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// do carries out a change and checks that it then counts as done.
func do(t *testing.T, w world.World, c change.Change) {
	t.Helper()
	ctx := limited(t)
	if err := w.Do(ctx, c); err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	isDone(t, w, c, true)
}

func isDone(t *testing.T, w world.World, c change.Change, want bool) {
	t.Helper()
	done, err := c.Done(limited(t), w)
	if err != nil {
		t.Fatalf("asking whether it is done: %s: %v", c, err)
	}
	if done != want {
		t.Errorf("%s: done is %v, want %v", c, done, want)
	}
}

// refuses checks that a change fails.
func refuses(t *testing.T, w world.World, c change.Change) {
	t.Helper()
	if err := w.Do(limited(t), c); err == nil {
		t.Errorf("%s: want an error", c)
	}
}

// undone carries out a change and then its inverse.
func undone(t *testing.T, w world.World, c change.Change) {
	t.Helper()
	back, err := c.Inverse(limited(t), w)
	if err != nil {
		t.Fatalf("inverse of %s: %v", c, err)
	}
	do(t, w, c)
	do(t, w, back)
}

func isAbsent(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an error that is fs.ErrNotExist", err)
	}
}

// unknown is a change of a kind that no world knows.
type unknown struct{ change.Change }

// Clock checks that time goes on.
func Clock(t *testing.T, w world.World) {
	last := w.Now()
	if last.IsZero() {
		t.Fatal("the clock shows no time")
	}
	for range 100 {
		now := w.Now()
		if now.Before(last) {
			t.Fatalf("the clock went back from %s to %s", last, now)
		}
		last = now
	}
}

// Doors checks that what a world does not know is refused and not passed over in silence.
func Doors(t *testing.T, w world.World) {
	if err := w.Do(limited(t), unknown{change.MakeDir{Path: "/kubeadm-contract-never"}}); err == nil {
		t.Error("a change of a kind that no world knows: want an error")
	}
}
