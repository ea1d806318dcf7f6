package kube

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// attempt is one attempt of a request in virtual time.
type attempt func(ctx context.Context) error

// noAnswer is a server that accepts connections and says nothing.
func noAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	<-ctx.Done()
	return &url.Error{Op: "Get", URL: "https://127.0.0.1:1", Err: ctx.Err()}
}

func refused(context.Context) error {
	return &url.Error{Op: "Get", URL: "https://127.0.0.1:1", Err: errors.New("connection refused")}
}

func failed(context.Context) error { return apierrors.NewInternalError(errors.New("no leader")) }

// busy is a server that rejects a request, and asks for a pause if it is positive.
func busy(pause time.Duration) attempt {
	return asking(apierrors.NewTooManyRequestsError("too many requests"), pause)
}

func asking(err error, pause time.Duration) attempt {
	return func(ctx context.Context) error {
		ctx.Value(askedPauseKey{}).(*atomic.Int64).Store(int64(pause))
		return err
	}
}

// newVirtual returns a Cluster whose attempts send nothing, and an identity for it.
func newVirtual(t *testing.T) (*Cluster, state.Identity) {
	t.Helper()
	spec := pki.KubeconfigSpec{Server: "https://127.0.0.1:1", Cluster: "c", User: "u"}
	data, err := spec.WithToken("secret").Encode()
	if err != nil {
		t.Fatal(err)
	}
	k, as := New(nil), state.Identity{Config: data}
	if _, err := k.clientFor(as); err != nil {
		t.Fatal(err)
	}
	return k, as
}

// newRead is a read with these attempts, which begin again after the last one.
func newRead(as state.Identity, count *int, attempts ...attempt) request {
	return request{as: as, op: "reading", isRetryable: isServerBusy, isRead: true,
		do: func(ctx context.Context, _ *client) error {
			*count++
			return attempts[(*count-1)%len(attempts)](ctx)
		}}
}

// Only pauses that a busy server asks for make a read take longer than its limit, however long the context lasts.
func TestReadsEndAtLimit(t *testing.T) {
	k, as := newVirtual(t)
	const limit = time.Minute
	const longestPause = 40 * time.Second // a read ends at once if its context leaves no time for one
	unavailable := apierrors.NewServiceUnavailable("the load balancer has no backend")
	for name, c := range map[string]struct {
		attempts    []attempt
		least, most time.Duration
	}{
		"never answers":         {[]attempt{noAnswer}, limit, limit},
		"refused":               {[]attempt{refused}, limit - world.LongPause*2, limit},
		"fails":                 {[]attempt{failed}, limit, limit},
		"busy":                  {[]attempt{busy(0)}, limit, limit},
		"fails, asks":           {[]attempt{asking(unavailable, 30*time.Second)}, limit, limit},
		"busy, asks":            {[]attempt{busy(30 * time.Second)}, limit + world.Patience - longestPause, limit + world.Patience},
		"busy, asks for hours":  {[]attempt{busy(5 * time.Hour)}, limit + world.Patience - longestPause, limit + world.Patience},
		"busy, never answers":   {[]attempt{busy(0), noAnswer}, limit, limit},
		"busy, asks; hangs":     {[]attempt{busy(10 * time.Second), noAnswer}, 2*limit - 10*time.Second, 3 * limit},
		"busy, asks; refused":   {[]attempt{busy(10 * time.Second), refused}, limit + world.Patience - 15*time.Second, limit + world.Patience},
		"asks once, then hangs": {append([]attempt{busy(20 * time.Second)}, repeat(noAnswer, 99)...), limit + 20*time.Second, limit + 25*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, outer := range []time.Duration{0, limit + world.Patience, time.Hour} {
					ctx, cancel := context.WithCancel(t.Context())
					if outer > 0 {
						ctx, cancel = context.WithTimeout(t.Context(), outer)
					}
					count, begun := 0, time.Now()
					err := k.retry(world.WithRetry(ctx, limit), newRead(as, &count, c.attempts...))
					cancel()
					if took := time.Since(begun); err == nil || took < c.least || took > c.most {
						t.Errorf("in a context of %s: %d attempts in %s, want %s to %s: %v", outer, count, took, c.least, c.most, err)
					}
				}
			})
		})
	}
}

func repeat(one attempt, times int) (all []attempt) {
	for range times {
		all = append(all, one)
	}
	return all
}

// An interrupt ends each of these reads at once, a pause too, and its error says so.
func TestReadsEndWithContext(t *testing.T) {
	k, as := newVirtual(t)
	for name, one := range map[string]attempt{"never answers": noAnswer, "refused": refused, "fails": failed,
		"busy": busy(0), "busy, asks": busy(30 * time.Second)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				interrupted := errors.New("interrupted")
				ctx, cancel := context.WithCancelCause(t.Context())
				limited, stop := context.WithTimeout(ctx, time.Minute+world.Patience)
				defer stop()
				time.AfterFunc(25*time.Second, func() { cancel(interrupted) })
				count, begun := 0, time.Now()
				err := k.retry(world.WithRetry(limited, time.Minute), newRead(as, &count, one))
				if took := time.Since(begun); !errors.Is(err, interrupted) || took != 25*time.Second {
					t.Errorf("after %s: %v", took, err)
				}
			})
		})
	}
}

// A server is not asked before the pause is over that it asked for, also near the limits of a read and of its caller.
func TestReadsAskAfterPause(t *testing.T) {
	k, as := newVirtual(t)
	const pause = 31 * time.Second
	check := func(t *testing.T, ctx context.Context, run func(context.Context, request) error) {
		t.Helper()
		var last time.Time
		count := 0
		err := run(ctx, newRead(as, &count, func(ctx context.Context) error {
			if since := time.Since(last); since < pause {
				t.Errorf("attempt %d comes %s after the one before", count, since)
			}
			last = time.Now()
			return busy(pause)(ctx)
		}))
		if err == nil || count < 2 || !strings.Contains(err.Error(), "too many requests") {
			t.Errorf("%d attempts: %v", count, err)
		}
	}
	await := func(timeout, each time.Duration, hide bool) func(context.Context, request) error {
		return func(ctx context.Context, a request) error {
			var last error
			err := world.Poll(ctx, nil, world.Condition{Name: "a condition", Timeout: timeout,
				Check: func(ctx context.Context, _ state.Reader) error {
					if each > 0 {
						limited, cancel := context.WithTimeout(ctx, each)
						defer cancel()
						ctx = limited
					}
					last = k.retry(ctx, a)
					if hide {
						return errors.New(last.Error())
					}
					return last
				}})
			return errors.Join(err, last)
		}
	}
	for name, run := range map[string]func(context.Context, request) error{
		"alone":                       k.retry,
		"in a condition":              await(2*time.Minute, 0, false),
		"in attempts of ten seconds":  await(2*time.Minute, 10*time.Second, false),
		"in one that hides the cause": await(2*time.Minute, 0, true),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, t.Context(), run) })
		})
	}
}

// A long pause is reported as it begins.
func TestLongPausesAreReported(t *testing.T) {
	k, as := newVirtual(t)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var told []time.Duration
		ctx := world.WithProgress(t.Context(), func(text string) {
			told = append(told, time.Since(begun))
			if !strings.Contains(text, "too many requests") {
				t.Errorf("told: %s", text)
			}
		})
		count := 0
		err := k.retry(ctx, newRead(as, &count, busy(30*time.Second), func(context.Context) error { return nil }))
		if err != nil || len(told) != 1 || told[0] != 0 {
			t.Errorf("told after %s: %v", told, err)
		}
	})
}

// The pauses of all pages of a list together have one limit, and take no time from later pages.
func TestPagesShareAskedPauses(t *testing.T) {
	k, as := newVirtual(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, pauses := world.CountPauses(world.WithRetry(t.Context(), time.Minute))
		begun, count := time.Now(), 0
		limit := begun.Add(time.Minute)
		page := newRead(as, &count, append(repeat(busy(30*time.Second), 3), func(context.Context) error { return nil })...)
		if err := k.retryPage(ctx, limit, pauses, page); err != nil || time.Since(begun) < 90*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		page = newRead(as, &count, busy(30*time.Second))
		err := k.retryPage(ctx, limit, pauses, page)
		if late := time.Since(limit); err == nil || late < world.Patience-40*time.Second || late > world.Patience {
			t.Errorf("a page of a busy server ends %s after the limit: %v", late, err)
		}
		page = newRead(as, &count, noAnswer)
		err = k.retryPage(ctx, limit, pauses, page)
		if late := time.Since(limit); err == nil || late.Round(time.Second) != pauses.Total().Round(time.Second) {
			t.Errorf("a page without an answer ends %s after the limit, pauses were %s: %v", late, pauses.Total(), err)
		}
	})
}
