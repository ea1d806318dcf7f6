package world

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/state"
)

func TestAskedPause(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header string
		want   time.Duration
	}{
		"too many requests":  {http.StatusTooManyRequests, "3", 3 * time.Second},
		"unavailable":        {http.StatusServiceUnavailable, "1", time.Second},
		"a redirect":         {http.StatusFound, "3", 0},
		"no header":          {http.StatusTooManyRequests, "", 0},
		"a date":             {http.StatusTooManyRequests, "Fri, 31 Dec 1999 23:59:59 GMT", 0},
		"less than nothing":  {http.StatusTooManyRequests, "-1", 0},
		"longer than a year": {http.StatusTooManyRequests, "99999999", 0},
	} {
		answer := &http.Response{StatusCode: c.status, Header: http.Header{"Retry-After": {c.header}}}
		if got := AskedPause(answer); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPauses: machines that begin at the same time do not go on in step, and wait as long as a server asks for, but not
// for hours.
func TestPauses(t *testing.T) {
	refused := errors.New("refused")
	seen := map[time.Duration]bool{}
	for range 100 {
		pause := pauseAfter(refused, 10*time.Second, 2*time.Second)
		if pause < 750*time.Millisecond || pause > 1250*time.Millisecond {
			t.Errorf("the pause is %s after ten seconds", pause)
		}
		seen[pause] = true
		asked := pauseAfter(RetryAfter(refused, 8*time.Second), time.Second, time.Second)
		if asked < 8*time.Second || asked > 10*time.Second {
			t.Errorf("the pause is %s, but 8 s were asked for", asked)
		}
	}
	if len(seen) < 50 {
		t.Errorf("only %d of 100 pauses differ", len(seen))
	}
	if pause := pauseAfter(RetryAfter(refused, time.Hour), 0, time.Second); pause > 41*time.Second {
		t.Errorf("the pause is %s", pause)
	}
	if err := RetryAfter(refused, time.Second); !errors.Is(err, refused) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

// TestWaitGoesOn: a wait that goes on an earlier one does not begin with short pauses again.
func TestWaitGoesOn(t *testing.T) {
	checks := 0
	err := Poll(t.Context(), nil, Condition{Name: "nothing", Timeout: 300 * time.Millisecond, MaxPause: time.Minute,
		Begun: time.Now().Add(-time.Minute),
		Check: func(context.Context, state.Reader) error { checks++; return errors.New("not yet") }})
	if err == nil || checks != 1 {
		t.Errorf("%d checks, %v", checks, err)
	}
}

// TestAskedPausesExtendLimit: pauses that a server asks for are added to the limit, up to the patience.
func TestAskedPausesExtendLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy, checks := error(apierrors.NewTooManyRequestsError("busy")), 0
		c := Condition{Name: "the server", Timeout: time.Minute,
			Check: func(context.Context, state.Reader) error {
				if checks++; checks == 5 {
					return nil
				}
				return RetryAfter(busy, 30*time.Second)
			}}
		if err := Poll(t.Context(), nil, c); err != nil || checks != 5 {
			t.Errorf("%d checks: %v", checks, err)
		}
		started := time.Now()
		c.Check = func(context.Context, state.Reader) error { return RetryAfter(busy, 30*time.Second) }
		err := Poll(t.Context(), nil, c)
		if took := time.Since(started); !errors.Is(err, busy) || took != 5*time.Minute ||
			!strings.Contains(err.Error(), "waited 5m0s for the server") {
			t.Errorf("after %s: %v", took, err)
		}
		started = time.Now()
		c.Check = func(context.Context, state.Reader) error { return busy }
		if err := Poll(t.Context(), nil, c); !errors.Is(err, busy) || time.Since(started) != time.Minute {
			t.Errorf("a server that asks for nothing: %v after %s", err, time.Since(started))
		}
		started = time.Now()
		c.Check = func(context.Context, state.Reader) error { return RetryAfter(errors.New("none"), 30*time.Second) }
		if err := Poll(t.Context(), nil, c); time.Since(started) != time.Minute {
			t.Errorf("a server that is not busy: %v after %s", err, time.Since(started))
		}
	})
}

// TestAskedPauseBeyondDeadline: a pause that the caller's deadline does not allow is left to the caller.
func TestAskedPauseBeyondDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy, started, attempts := error(apierrors.NewTooManyRequestsError("busy")), time.Now(), 0
		one := Condition{Name: "an answer", Timeout: time.Minute,
			Check: func(context.Context, state.Reader) error {
				if attempts++; attempts == 6 {
					return nil
				}
				return RetryAfter(busy, 30*time.Second)
			}}
		all := Condition{Name: "the server", Timeout: time.Minute,
			Check: func(ctx context.Context, _ state.Reader) error {
				ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				defer cancel()
				return Poll(ctx, nil, one)
			}}
		err := Poll(t.Context(), nil, all)
		if took := time.Since(started); err != nil || attempts != 6 || took < 150*time.Second {
			t.Errorf("%d attempts in %s: %v", attempts, took, err)
		}
	})
}
