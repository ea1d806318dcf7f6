// Package world is the interface to everything outside the process. It is read with the
// methods of state.Reader, changed by Do only and waited for by Await only. Dry run, journal,
// fault injection and the simulated machine of tests implement it in the packages below this one.
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
	// Do carries out one change, without a check whether it is needed. A change that takes long
	// may report progress.
	Do(ctx context.Context, c change.Change) error
	// Await returns nil once the condition holds. It returns the last error of the check when the
	// timeout is over, the context ends, or the error is permanent.
	Await(ctx context.Context, c Condition) error
}

// Condition is something to wait for.
type Condition struct {
	Name    string        // completes "waiting for …"
	Timeout time.Duration // must be positive
	// Check returns nil once the condition holds, an error while it does not, and a permanent
	// error if it never will.
	Check func(ctx context.Context, r state.Reader) error
	// External is set if the condition depends on other machines or users and not on changes of
	// this run. A dry run waits for such a condition too.
	External bool
	// MaxPause is the longest pause between two checks; 0 for a quarter of a second. It is for cheap
	// checks of what is likely to become true within seconds.
	MaxPause time.Duration
	// Begun is when the wait began, if it goes on one that ended before, so that pauses stay as long as they were.
	Begun time.Time
}

// Permanent marks an error as permanent: retrying cannot help.
func Permanent(err error) error { return &permanentError{err} }

// IsPermanent reports whether err is permanent.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

type permanentError struct{ error }

func (p *permanentError) Unwrap() error { return p.error }
