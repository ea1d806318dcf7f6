package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/world/fake"
)

// TestPhaseAfterMilestone checks that a phase after a milestone of the first one of its group runs beside it
// from then on, after it if it does not reach the milestone, and not at all if it fails before. A failure
// of the second one ends the first one.
func TestPhaseAfterMilestone(t *testing.T) {
	failure := errors.New("no")
	for _, c := range []struct {
		name     string
		lead     func(ctx context.Context, e *engine.Env, followed <-chan struct{}) error
		skip     []string
		ran      bool
		ordered  bool // after the first one's end
		follow   error
		expected error
	}{
		{name: "reached", lead: func(ctx context.Context, e *engine.Env, followed <-chan struct{}) error {
			e.Reach("half")
			<-followed
			return nil
		}, ran: true},
		{name: "fails afterwards", lead: func(ctx context.Context, e *engine.Env, followed <-chan struct{}) error {
			e.Reach("half")
			<-followed
			return failure
		}, ran: true, expected: failure},
		{name: "not reached", lead: func(context.Context, *engine.Env, <-chan struct{}) error { return nil }, ran: true,
			ordered: true},
		{name: "fails before", lead: func(context.Context, *engine.Env, <-chan struct{}) error { return failure },
			expected: failure},
		{name: "skipped", skip: []string{"lead"}, ran: true},
		{name: "canceled", lead: func(ctx context.Context, e *engine.Env, followed <-chan struct{}) error {
			e.Reach("half")
			<-ctx.Done()
			return context.Cause(ctx)
		}, follow: failure, ran: true, expected: failure},
	} {
		t.Run(c.name, func(t *testing.T) {
			followed := make(chan struct{})
			group := []engine.Phase{{Name: "lead", Run: func(ctx context.Context, e *engine.Env) error {
				return c.lead(ctx, e, followed)
			}}, {Name: "follow", After: "half", Run: func(context.Context, *engine.Env) error {
				close(followed)
				return c.follow
			}}}
			e, l := env(fake.New())
			err := engine.Run(t.Context(), e, []engine.Phase{{Parallel: true, Phases: group}},
				engine.Selection{Skip: c.skip})
			if !errors.Is(err, c.expected) {
				t.Errorf("want error %v, got %v", c.expected, err)
			}
			isAbout := func(line string) bool { return strings.HasPrefix(line, "phaseStarted follow") }
			if got := slices.ContainsFunc(l.lines, isAbout); got != c.ran {
				t.Errorf("the second phase ran: %t, want %t:\n%s", got, c.ran, strings.Join(l.lines, "\n"))
			}
			if c.ordered && slices.IndexFunc(l.lines, isAbout) <
				slices.Index(l.lines, "phaseFinished lead") {
				t.Errorf("the second phase began before the first one's end:\n%s",
					strings.Join(l.lines, "\n"))
			}
		})
	}
}

// TestPanicEndsWaitForMilestone checks that a panic of the first phase does not leave the others waiting.
func TestPanicEndsWaitForMilestone(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the panic did not reach the caller")
		}
	}()
	e, _ := env(fake.New())
	_ = engine.Run(t.Context(), e, []engine.Phase{{Parallel: true, Phases: []engine.Phase{
		{Name: "lead", Run: func(context.Context, *engine.Env) error { panic("no") }}, {Name: "follow", After: "half"},
	}}}, engine.Selection{})
}
