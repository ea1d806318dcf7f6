package preflight

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// said returns a check that takes some time and reports what find does.
func said(name string, after time.Duration, find func(*Report)) Check {
	return Check{Name: name, Run: func(ctx context.Context, _ state.Reader, rep *Report) {
		select {
		case <-ctx.Done():
		case <-time.After(after):
		}
		find(rep)
	}}
}

func fails(rep *Report) { rep.Fail("fix it", "it is broken") }

func TestFindingsAreInOrderOfChecks(t *testing.T) {
	result := Run(t.Context(), nil, []Check{
		said("Slow", 20*time.Millisecond, fails),
		said("Quick", 0, func(rep *Report) { rep.Warn("", "odd"); fails(rep) }),
		said("Middling", 5*time.Millisecond, fails),
	}, nil)
	want := strings.Join([]string{
		"[ERROR Slow]: it is broken; fix it",
		"[WARNING Quick]: odd",
		"[ERROR Quick]: it is broken; fix it",
		"[ERROR Middling]: it is broken; fix it",
	}, "\n")
	if got := lines(result.Findings); got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}
}

func TestChecksRunInParallel(t *testing.T) {
	met := make(chan struct{})
	partner := func(meet func()) Check {
		return Check{Name: "Partner", Run: func(context.Context, state.Reader, *Report) { meet() }}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Run(t.Context(), nil,
			[]Check{partner(func() { <-met }), partner(func() { met <- struct{}{} })}, nil)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the first check waits for the second, which never runs")
	}
}

func TestIgnoredErrorsAreWarnings(t *testing.T) {
	checks := []Check{said("Port-6443", 0, fails), said("Swap", 0, fails)}
	for _, c := range []struct {
		ignore node.IgnoredChecks
		failed string
	}{
		{nil, "Port-6443 Swap"},
		{node.IgnoredChecks{"port-6443"}, "Swap"},
		{node.IgnoredChecks{"swap", "port-6443"}, ""},
		{node.IgnoredChecks{"port"}, "Port-6443 Swap"},
		{node.IgnoredChecks{"all"}, ""},
	} {
		result := Run(t.Context(), nil, checks, c.ignore)
		var failed Failures
		errors.As(result.Err(), &failed)
		if got := strings.Join(failed.checkNames(), " "); got != c.failed {
			t.Errorf("ignoring %v: failed %q, want %q", c.ignore, got, c.failed)
		}
		if len(result.Warnings())+len(failed) != len(checks) {
			t.Errorf("ignoring %v: a finding got lost: %v", c.ignore, result.Findings)
		}
	}
}

func TestErrListsAllFailuresAndNoWarning(t *testing.T) {
	err := Run(t.Context(), nil, []Check{
		said("CRI", 0, fails), said("Swap", 0, func(rep *Report) { rep.Warn("", "odd") }),
		said("Mem", 0, fails), said("CRI", 0, fails),
	}, nil).Err()
	want := "this machine is not ready:\n" +
		"\t[ERROR CRI]: it is broken; fix it\n\t[ERROR Mem]: it is broken; fix it\n\t[ERROR CRI]: it is broken; fix it"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	hints := strings.Join(problem.Hints(err), "\n")
	if !strings.Contains(hints, "--ignore-preflight-errors=CRI,Mem") ||
		!strings.Contains(hints, "re-run the command") {
		t.Errorf("hints %q", hints)
	}
}

func TestInterruptIsNoFinding(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	result := Run(ctx, nil, []Check{said("CRI", time.Minute, fails)}, node.IgnoredChecks{"all"})
	if !errors.Is(result.Err(), why) || len(result.Findings) != 0 {
		t.Errorf("error %v, findings %v", result.Err(), result.Findings)
	}
}
