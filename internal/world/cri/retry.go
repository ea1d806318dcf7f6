package cri

import (
	"context"
	"time"

	"kubeadm/internal/world"
)

const maxAttempts = 5

// retry calls try until it succeeds, the context ends, the error is final, or it has failed five
// times. The pause between the attempts doubles. It reports the progress of failed and of slow
// attempts.
func retry(ctx context.Context, pause time.Duration, try func() error,
	isFinal func(error) bool) error {
	for n := 1; ; n++ {
		err := runWithProgress(ctx, n, try)
		if err == nil || n == maxAttempts || ctx.Err() != nil || isFinal(err) {
			return err
		}
		world.ReportProgress(ctx, "attempt %d of %d failed, retrying: %v", n, maxAttempts, err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
			pause *= 2
		}
	}
}

// progressInterval is the time between two progress messages of one attempt.
const progressInterval = 10 * time.Second

// runWithProgress runs attempt number n and reports its progress.
func runWithProgress(ctx context.Context, n int, try func() error) error {
	started, done := time.Now(), make(chan error, 1)
	go func() { done <- try() }()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			world.ReportProgress(ctx, "still running after %s (attempt %d of %d)",
				time.Since(started).Round(time.Second), n, maxAttempts)
		}
	}
}
