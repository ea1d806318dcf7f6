package cri

import (
	"context"
	"time"

	"kubeadm/internal/world"
)

// attempts is how often something is tried.
const attempts = 5

// again tries up to five times, with a pause that doubles, until it succeeds, the context ends or the error is final. Who
// listens is told of each attempt that failed and of those that last.
func again(ctx context.Context, pause time.Duration, try func() error, isFinal func(error) bool) error {
	for n := 1; ; n++ {
		err := reminding(ctx, n, try)
		if err == nil || n == attempts || ctx.Err() != nil || isFinal(err) {
			return err
		}
		world.Tell(ctx, "attempt %d of %d failed, the next follows: %v", n, attempts, err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// remindEvery is how often who listens is told that an attempt still lasts.
const remindEvery = 10 * time.Second

// reminding makes the attempt of that number, and tells now and then that it lasts.
func reminding(ctx context.Context, n int, try func() error) error {
	begun, ended := time.Now(), make(chan error, 1)
	go func() { ended <- try() }()
	remind := time.NewTicker(remindEvery)
	defer remind.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-remind.C:
			world.Tell(ctx, "still at it after %s (attempt %d of %d)", time.Since(begun).Round(time.Second), n, attempts)
		}
	}
}
