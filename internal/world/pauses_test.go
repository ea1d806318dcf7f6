package world

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/state"
)

// askedPause is what the server of these tests asks for.
const askedPause = 20 * time.Second

func askForPause() error { return RetryAfter(apierrors.NewTooManyRequestsError("busy"), askedPause) }

// TestPausesInChecks: pauses that a wait makes extend the wait that it is part of, whether that sees their cause or not, and
// the server is not asked before they are over. Time in which a server does not answer extends nothing.
func TestPausesInChecks(t *testing.T) {
	t.Parallel()
	const timeout, longest = time.Minute, askedPause + askedPause/4
	for name, c := range map[string]struct {
		busy         int // answers that ask for a pause
		hangs, hides bool
		limit        time.Duration // of one request in the check
		least, most  time.Duration
		fails        bool
	}{
		"busy, then answers":                {busy: 9, least: 9 * askedPause, most: 9 * longest},
		"busy, hidden, then answers":        {busy: 9, hides: true, least: 9 * askedPause, most: 9 * longest},
		"busy, short requests":              {busy: 9, limit: 10 * time.Second, least: 9 * askedPause, most: 9 * longest},
		"busy for long":                     {busy: 99, fails: true, least: timeout + Patience, most: timeout + Patience + longest},
		"busy for long, hidden":             {busy: 99, hides: true, fails: true, least: timeout + Patience, most: timeout + Patience + longest},
		"busy, then hangs":                  {busy: 2, hangs: true, fails: true, least: timeout + 2*askedPause, most: timeout + 2*longest},
		"busy, hidden, then hangs":          {busy: 2, hangs: true, hides: true, fails: true, least: timeout + 2*askedPause, most: timeout + 2*longest},
		"hangs":                             {hangs: true, fails: true, least: timeout, most: timeout},
		"busy beyond the limit, then hangs": {busy: 4, hangs: true, fails: true, least: timeout + 4*askedPause, most: timeout + 4*longest},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started, answers, last := time.Now(), c.busy, time.Time{}
				request := Condition{Name: "an answer", Timeout: time.Hour, Check: func(ctx context.Context, _ state.Reader) error {
					if since := time.Since(last); since < askedPause {
						t.Errorf("asked %s after the last answer", since)
					}
					if answers--; answers >= 0 {
						last = time.Now()
						return askForPause()
					}
					if last = (time.Time{}); c.hangs {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}}
				err := Poll(t.Context(), nil, Condition{Name: "the server", Timeout: timeout,
					Check: func(ctx context.Context, _ state.Reader) error {
						if c.limit > 0 {
							limited, cancel := context.WithTimeout(ctx, c.limit)
							defer cancel()
							ctx = limited
						}
						err := Poll(ctx, nil, request)
						if err != nil && c.hides {
							return errors.New(err.Error())
						}
						return err
					}})
				if took := time.Since(started); (err != nil) != c.fails || took < c.least || took > c.most {
					t.Errorf("ends after %s, want %s to %s: %v", took, c.least, c.most, err)
				}
			})
		})
	}
}

// TestPausesOfShortWaits: a wait for what must not take long takes at most five times as long.
func TestPausesOfShortWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		err := Poll(t.Context(), nil, Condition{Name: "the server", Timeout: 5 * time.Second,
			Check: func(context.Context, state.Reader) error { return askForPause() }})
		if took := time.Since(started); err == nil || took < askedPause || took > 25*time.Second {
			t.Errorf("ends after %s: %v", took, err)
		}
	})
}

// TestPauseOfCanceledCheck: a check that the timeout ends, and that then returns the last answer it got, was not asked to pause
// now: the wait ends in time.
func TestPauseOfCanceledCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = time.Minute
		started := time.Now()
		err := Poll(t.Context(), nil, Condition{Name: "the server", Timeout: timeout,
			Check: func(ctx context.Context, _ state.Reader) error {
				<-ctx.Done()
				return askForPause()
			}})
		if took := time.Since(started); err == nil || took != timeout {
			t.Errorf("ends after %s, want %s: %v", took, timeout, err)
		}
	})
}

// TestPausesAtTheSameTime count once.
func TestPausesAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, pauses := CountPauses(t.Context())
		started := time.Now()
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				count := 0
				_ = Poll(ctx, nil, Condition{Name: "the server", Timeout: time.Minute, Check: func(context.Context, state.Reader) error {
					if count++; count == 3 {
						return nil
					}
					return askForPause()
				}})
			})
		}
		group.Wait()
		if total, took := pauses.Total(), time.Since(started); total < 2*askedPause || total > took {
			t.Errorf("pauses of %s in %s", total, took)
		}
	})
}

// TestPausesEndWithCommand: an interrupt ends a pause in the check of a wait at once, also after that wait's time.
func TestPausesEndWithCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		interrupted := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(15*time.Second, func() { cancel(interrupted) })
		started := time.Now()
		err := Poll(ctx, nil, Condition{Name: "all", Timeout: 10 * time.Second, Check: func(ctx context.Context, _ state.Reader) error {
			return Poll(ctx, nil, Condition{Name: "one", Timeout: time.Hour, Check: func(context.Context, state.Reader) error { return askForPause() }})
		}})
		if took := time.Since(started); !errors.Is(err, interrupted) || took != 15*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
	})
}
