// Package world is everything outside the process, behind one door: it is read
// freely, altered only through Do and waited for only through Await. Dry-run, journal,
// faults and tests are wrappers of World in the packages below this one.
package world

import (
	"context"
	"errors"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// World is everything outside the process.
type World interface {
	state.Reader
	// Do carries out one change. It does not ask whether the change is needed. What takes long it may Tell of.
	Do(ctx context.Context, c change.Change) error
	// Await returns once the condition holds, or with an error that says what was still missing
	// when the condition's time was up, the context ended, or the condition gave up.
	Await(ctx context.Context, c Condition) error
}

// Condition is something to wait for, that can say what it is.
type Condition struct {
	Name    string        // completes "waiting for …"
	Timeout time.Duration // bound of the wait; must be positive
	// Check returns nil once the condition holds, an error while it does not, and an
	// error made by GiveUp when it never will.
	Check func(ctx context.Context, r state.Reader) error
	// Outside says that whether the condition holds is up to others and not to what this run
	// does: then a preview waits for it in earnest.
	Outside bool
}

// GiveUp marks an error that is the same however often one asks: waiting on is of no use.
func GiveUp(err error) error { return &hopeless{err} }

// Hopeless tells whether err was marked by GiveUp.
func Hopeless(err error) bool {
	var h *hopeless
	return errors.As(err, &h)
}

type hopeless struct{ error }

func (h *hopeless) Unwrap() error { return h.error }
