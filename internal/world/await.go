package world

import (
	"cmp"
	"context"
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
	if asked := PauseAskedBy(err); asked > 0 {
		return max(pause, asked+rand.N(asked/4+1))
	}
	return pause
}

// Spread returns a pause up to a quarter longer or shorter, chosen at random.
func Spread(pause time.Duration) time.Duration { return pause + rand.N(pause/2+1) - pause/4 }

// Poll implements Await for a world with a real clock. The first check is immediate. Pauses that a busy server asks for
// (IsPauseOfBusyServer) extend the timeout by at most four times itself, and by at most Patience, whether this wait makes them
// or one in its check.
func Poll(ctx context.Context, r state.Reader, c Condition) error {
	if c.Timeout <= 0 {
		return fmt.Errorf("waiting for %s: no time limit was given", c.Name)
	}
	begun := time.Now()
	started := begun
	if !c.Begun.IsZero() {
		started = c.Begun
	}
	longest := cmp.Or(c.MaxPause, maxPause)
	checkCtx, pauses := CountPauses(ctx)
	timeout := func() time.Duration { return c.Timeout + pauses.extension(c.Timeout) }
	var last error
	for {
		limited, cancel := pauses.limitCheck(checkCtx, begun.Add(timeout()))
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
		if PauseAskedBy(err) > 0 && ctx.Err() == nil && hasShortDeadline(ctx, pauses, pause) {
			return fmt.Errorf("waiting for %s: %w", c.Name, err) // the caller may wait that long
		}
		isBusy := IsPauseOfBusyServer(err) && !isOver
		if isBusy {
			pauses.add(pause)
		}
		isShared := isBusy && pauses.outer.limits(ctx) // with the wait that this one is part of, which is extended too
		if !isShared {
			pause = min(pause, timeout()-time.Since(begun))
		}
		pauses.sleep(ctx, pause, isShared)
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("%w while waiting for %s; last error: %v", err, c.Name, last)
		}
		if time.Since(begun) >= timeout() {
			waited := c.Timeout
			if pauses.Total() > 0 {
				waited = time.Since(begun).Round(time.Second)
			}
			return fmt.Errorf("waited %s for %s: %w", waited, c.Name, last)
		}
	}
}

// hasShortDeadline reports whether the context ends before the pause does, and not because the wait that it is for
// ends: its next check could come before the pause is over.
func hasShortDeadline(ctx context.Context, pauses *Pauses, pause time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && !pauses.outer.limits(ctx) && time.Until(deadline) < pause
}

// TimeLeft returns the time until the context's deadline, or limit if it has none.
func TimeLeft(ctx context.Context, limit time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline), time.Millisecond)
	}
	return limit
}
