package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// Above this load other programs distort the times. The wait for it is limited, for machines that
// are never idle.
const (
	idleLoad    = 0.5
	idleTimeout = 2 * time.Minute
)

// readLoad is the mean number of tasks that ran or wanted to during the last minute,
// proc_loadavg(5).
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

// awaitIdle waits until the machine is idle, at most for idleTimeout, and returns the load then.
func awaitIdle(ctx context.Context, log func(string, ...any)) (float64, error) {
	begun := time.Now()
	for said := false; ; {
		value, err := readLoad()
		if err != nil || value < idleLoad {
			return value, err
		}
		if time.Since(begun) > idleTimeout {
			log("the load is still %.2f: starting anyway, but the times will not be reliable",
				value)
			return value, nil
		}
		if !said {
			log("the load is %.2f: waiting until it is below %.1f, for %s at most", value, idleLoad,
				idleTimeout)
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
