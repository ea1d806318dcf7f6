package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Above this load others take so much of the machine that times say little. The wait for it has a bound, so that the
// program ends on a machine that is never idle.
const (
	idleLoad    = 0.5
	idleTimeout = 2 * time.Minute
)

// readLoad is the mean number of tasks that ran or wanted to during the last minute, proc_loadavg(5).
func readLoad() (value float64, err error) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, fmt.Errorf("reading the load: %w", err)
	}
	if _, err := fmt.Sscan(string(data), &value); err != nil {
		return 0, fmt.Errorf("reading the load from %q: %w", data, err)
	}
	return value, nil
}

// awaitIdle waits until the machine is idle, or until patience is at its end, and returns the load then.
func awaitIdle(ctx context.Context, log func(string, ...any)) (float64, error) {
	begun := time.Now()
	for said := false; ; {
		value, err := readLoad()
		if err != nil || value < idleLoad {
			return value, err
		}
		if time.Since(begun) > idleTimeout {
			log("the load is still %.2f: going on, but the figures will say little", value)
			return value, nil
		}
		if !said {
			log("the load is %.2f: waiting until it is below %.1f, for %s at most", value, idleLoad, idleTimeout)
			said = true
		}
		if err := sleepContext(ctx, time.Second); err != nil {
			return 0, err
		}
	}
}

func sleepContext(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
