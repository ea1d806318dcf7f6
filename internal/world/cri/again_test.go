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

// heard is what is told of trying something, each attempt of which takes a while and ends as try says.
func heard(ctx context.Context, each time.Duration, try func(n int) error) (told []string, err error) {
	n := 0
	ctx = world.Listen(ctx, func(text string) { told = append(told, text) })
	err = again(ctx, pullPause, func() error {
		n++
		time.Sleep(each)
		return try(n)
	}, isFinalPullError)
	return told, err
}

func TestAttemptsAreToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told, err := heard(t.Context(), 25*time.Second, func(n int) error {
			if n == 1 {
				return errors.New("i/o timeout")
			}
			return nil
		})
		want := []string{
			"still at it after 10s (attempt 1 of 5)",
			"still at it after 20s (attempt 1 of 5)",
			"attempt 1 of 5 failed, the next follows: i/o timeout",
			"still at it after 10s (attempt 2 of 5)",
			"still at it after 20s (attempt 2 of 5)",
		}
		if err != nil || !slices.Equal(told, want) {
			t.Errorf("got %v and told %q, want %q", err, told, want)
		}
	})
}

func TestAttemptsGiveABusyRegistryTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		_, err := heard(t.Context(), 0, func(int) error { return errors.New("i/o timeout") })
		if took := time.Since(begin); err == nil || took < 10*time.Second || took > time.Minute {
			t.Errorf("five attempts took %s: %v", took, err)
		}
	})
}

// What ends it is the caller's to tell.
func TestTheLastAttemptIsNotToldOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ends error
		told int
		stop bool
	}{
		"all of them fail":    {ends: errors.New("i/o timeout"), told: attempts - 1},
		"trying is of no use": {ends: status.Error(codes.NotFound, "no such image")},
		"the context ends":    {ends: errors.New("i/o timeout"), stop: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				told, err := heard(ctx, time.Second, func(int) error {
					if c.stop {
						stop()
					}
					return c.ends
				})
				if !errors.Is(err, c.ends) || len(told) != c.told {
					t.Errorf("got %v and told %q", err, told)
				}
			})
		})
	}
}
