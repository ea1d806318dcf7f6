package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"kubeadm/internal/state"
)

// The pause between two checks is a tenth of the time waited so far, within these limits, of which a
// condition may set the upper one: short waits end at once, and long ones need few checks.
const (
	minPause = 10 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// LongPause is the MaxPause of conditions that cost a server more than one cheap request, or that many machines may wait
// for: a wait for them ends at most a tenth later than it could.
const LongPause = 2 * time.Second

// pauseAfter is how long to wait until the next check, some time after the first one. Up to a quarter more or less is
// chosen at random, so that machines that were started together, or all lost a server, do not ask in step.
func pauseAfter(err error, elapsed, longest time.Duration) time.Duration {
	pause := min(max(elapsed/10, minPause), longest)
	pause = Spread(pause)
	var asked *retryAfterError
	if errors.As(err, &asked) {
		return max(pause, asked.pause+rand.N(asked.pause/4+1))
	}
	return pause
}

// Spread returns a pause up to a quarter longer or shorter, chosen at random.
func Spread(pause time.Duration) time.Duration { return pause + rand.N(pause/2+1) - pause/4 }

// Poll implements Await for a world with a real clock. The first check is immediate.
func Poll(ctx context.Context, r state.Reader, c Condition) error {
	if c.Timeout <= 0 {
		return fmt.Errorf("waiting for %s: no time limit was given", c.Name)
	}
	started := time.Now()
	limit, patience := started.Add(c.Timeout), c.Patience
	if !c.Begun.IsZero() {
		started = c.Begun
	}
	longest := cmp.Or(c.MaxPause, maxPause)
	var last error
	for {
		limited, cancel := context.WithDeadline(ctx, limit)
		err := c.Check(limited, r)
		isOver := limited.Err() != nil
		cancel()
		if err == nil {
			return nil
		}
		if IsPermanent(err) {
			return fmt.Errorf("waiting for %s: %w", c.Name, err)
		}
		// The error of a check that the timeout canceled is less useful than the previous one.
		if last == nil || !isOver {
			last = err
		}
		pause := pauseAfter(err, time.Since(started), longest)
		if deadline, ok := ctx.Deadline(); ok && isAskedPause(err) && time.Until(deadline) < pause {
			return fmt.Errorf("waiting for %s: %w", c.Name, err) // the caller may wait that long
		}
		if isAskedPause(err) && !isOver {
			extra := min(pause, patience)
			patience -= extra
			limit = limit.Add(extra)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(pause, time.Until(limit))):
		}
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("%w while waiting for %s; last error: %v", err, c.Name, last)
		}
		if !time.Now().Before(limit) {
			return fmt.Errorf("waited %s for %s: %w",
				c.Timeout+(c.Patience-patience).Round(time.Second), c.Name, last)
		}
	}
}

// TimeLeft returns the time until the context's deadline, or limit if it has none.
func TimeLeft(ctx context.Context, limit time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline), time.Millisecond)
	}
	return limit
}
