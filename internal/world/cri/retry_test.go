package cri

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"kubeadm/internal/world"
)

// retryWithProgress returns the progress messages of retry. Each attempt takes some time and
// returns what try returns.
func retryWithProgress(ctx context.Context, each time.Duration,
	try func(n int) error) (told []string, err error) {
	n := 0
	ctx = world.WithProgress(ctx, func(text string) { told = append(told, text) })
	err = retry(ctx, pullPause, func() error {
		n++
		time.Sleep(each)
		return try(n)
	}, isFinalPullError)
	return told, err
}

func TestRetryReportsProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told, err := retryWithProgress(t.Context(), 25*time.Second, func(n int) error {
			if n == 1 {
				return errors.New("i/o timeout")
			}
			return nil
		})
		want := []string{
			"still running after 10s (attempt 1 of 5)",
			"still running after 20s (attempt 1 of 5)",
			"attempt 1 of 5 failed, retrying: i/o timeout",
			"still running after 10s (attempt 2 of 5)",
			"still running after 20s (attempt 2 of 5)",
		}
		if err != nil || !slices.Equal(told, want) {
			t.Errorf("got %v and progress %q, want %q", err, told, want)
		}
	})
}

func TestRetryPauseDoubles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := retryWithProgress(t.Context(), 0,
			func(int) error { return errors.New("i/o timeout") })
		if took := time.Since(begin); err == nil || took < 10*time.Second || took > time.Minute {
			t.Errorf("five attempts took %s: %v", took, err)
		}
	})
}

// The caller reports the last error.
func TestRetryDoesNotReportLastAttempt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends error
		told int
		stop bool
	}{
		"all of them fail":   {ends: errors.New("i/o timeout"), told: maxAttempts - 1},
		"the error is final": {ends: status.Error(codes.NotFound, "no such image")},
		"the context ends":   {ends: errors.New("i/o timeout"), stop: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				told, err := retryWithProgress(ctx, time.Second, func(int) error {
					if c.stop {
						stop()
					}
					return c.ends
				})
				if !errors.Is(err, c.ends) || len(told) != c.told {
					t.Errorf("got %v and progress %q", err, told)
				}
			})
		})
	}
}
