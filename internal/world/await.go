package world

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"kubeadm/internal/state"
)

// The pause between two checks is a tenth of the time waited so far, within these limits, of which a
// condition may set the upper one: short waits end at once, and long ones need few checks.
const (
	minPause = 10 * time.Millisecond
	maxPause = 250 * time.Millisecond
)

// Poll implements Await for a world with a real clock. The first check is immediate.
func Poll(ctx context.Context, r state.Reader, c Condition) error {
	if c.Timeout <= 0 {
		return fmt.Errorf("waiting for %s: no time limit was given", c.Name)
	}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	started := time.Now()
	longest := cmp.Or(c.MaxPause, maxPause)
	var last error
	for {
		err := c.Check(limited, r)
		if err == nil {
			return nil
		}
		if IsPermanent(err) {
			return fmt.Errorf("waiting for %s: %w", c.Name, err)
		}
		// The error of a check that the timeout canceled is less useful than the previous one.
		if last == nil || limited.Err() == nil {
			last = err
		}
		select {
		case <-limited.Done():
			if err := context.Cause(ctx); err != nil {
				return fmt.Errorf("%w while waiting for %s; last error: %v", err, c.Name, last)
			}
			return fmt.Errorf("waited %s for %s: %w", c.Timeout, c.Name, last)
		case <-time.After(min(max(time.Since(started)/10, minPause), longest)):
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
