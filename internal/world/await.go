package world

import (
	"context"
	"fmt"
	"kubeadm/internal/state"
	"time"
)

// The pause between two looks is a tenth of the wait so far, within these bounds: what is nearly there is seen at once,
// and what takes minutes costs little.
const (
	shortestPause = 10 * time.Millisecond
	longestPause  = 250 * time.Millisecond
)

// Poll is the Await of every world that has a real clock: it looks again and again, first at once.
func Poll(ctx context.Context, r state.Reader, c Condition) error {
	if c.Timeout <= 0 {
		return fmt.Errorf("waiting for %s: no time limit was given", c.Name)
	}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	begun := time.Now()
	var last error
	for {
		err := c.Check(limited, r)
		if err == nil {
			return nil
		}
		if Hopeless(err) {
			return fmt.Errorf("waiting for %s: %w", c.Name, err)
		}
		// A look that was cut short by the time limit says less than the one before it.
		if last == nil || limited.Err() == nil {
			last = err
		}
		select {
		case <-limited.Done():
			return ended(ctx, c, last)
		case <-time.After(min(max(time.Since(begun)/10, shortestPause), longestPause)):
		}
	}
}

// Left is the time until the context's deadline, or all of the bound where it has none.
func Left(ctx context.Context, bound time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline), time.Millisecond)
	}
	return bound
}

func ended(ctx context.Context, c Condition, last error) error {
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("%w while waiting for %s; so far: %v", err, c.Name, last)
	}
	return fmt.Errorf("waited %s for %s: %w", c.Timeout, c.Name, last)
}
