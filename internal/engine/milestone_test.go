package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
)

// TestPhaseAfterMilestone checks that a phase after a milestone of the first one of its group runs beside it
// from then on, after it if it does not reach the milestone, and not at all if it fails before. A failure
// of the second one ends the first one.
func TestPhaseAfterMilestone(t *testing.T) {
	failure := errors.New("no")
	half := []engine.Milestone{"lead:half"}
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
			_ = e.Reach(ctx, "lead:half")
			<-followed
			return nil
		}, ran: true},
		{name: "fails afterwards", lead: func(ctx context.Context, e *engine.Env, followed <-chan struct{}) error {
			_ = e.Reach(ctx, "lead:half")
			<-followed
			return failure
		}, ran: true, expected: failure},
		{name: "not reached", lead: func(context.Context, *engine.Env, <-chan struct{}) error { return nil }, ran: true,
			ordered: true},
		{name: "fails before", lead: func(context.Context, *engine.Env, <-chan struct{}) error { return failure },
			expected: failure},
		{name: "skipped", skip: []string{"lead"}, ran: true},
		{name: "canceled", lead: func(ctx context.Context, e *engine.Env, followed <-chan struct{}) error {
			_ = e.Reach(ctx, "lead:half")
			<-ctx.Done()
			return context.Cause(ctx)
		}, follow: failure, ran: true, expected: failure},
	} {
		t.Run(c.name, func(t *testing.T) {
			followed := make(chan struct{})
			group := []engine.Phase{{Name: "lead", Points: half, Run: func(ctx context.Context, e *engine.Env) error {
				return c.lead(ctx, e, followed)
			}}, {Name: "follow", After: half, Run: func(context.Context, *engine.Env) error {
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

// TestMisspelledPointIsAnError checks that a phase can neither wait for a point, reach it nor defer work to
// it if no phase of the run lists it. Points of phases that do not run need none.
func TestMisspelledPointIsAnError(t *testing.T) {
	for name, use := range map[string]func(context.Context, *engine.Env, engine.Milestone) error{
		"wait":  func(ctx context.Context, e *engine.Env, m engine.Milestone) error { return e.AwaitMilestones(ctx, m) },
		"reach": func(ctx context.Context, e *engine.Env, m engine.Milestone) error { return e.Reach(ctx, m) },
		"defer": func(ctx context.Context, e *engine.Env, m engine.Milestone) error {
			return e.Defer(ctx, m, func(context.Context, *engine.Env) error { return nil })
		},
	} {
		for point, isKnown := range map[engine.Milestone]bool{"a:half": true, "a:haf": false, "b:half": true} {
			phases := []engine.Phase{{Name: "a", Phases: []engine.Phase{{Points: []engine.Milestone{"a:half"}}},
				Run: func(ctx context.Context, e *engine.Env) error { return use(ctx, e, point) }}}
			e, _ := env(fake.New())
			if err := engine.Run(t.Context(), e, phases, engine.Selection{}); (err == nil) != isKnown {
				t.Errorf("%s %s: %v", name, point, err)
			}
		}
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
	half := []engine.Milestone{"lead:half"}
	_ = engine.Run(t.Context(), e, []engine.Phase{{Parallel: true, Phases: []engine.Phase{
		{Name: "lead", Points: half, Run: func(context.Context, *engine.Env) error { panic("no") }}, {Name: "follow", After: half},
	}}}, engine.Selection{})
}

// TestPhasesWaitForEachOther checks that a phase begins when the milestones that it names are reached,
// also while the group of such a phase goes on, and that milestones of phases that do not run count as
// reached.
func TestPhasesWaitForEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		sel  engine.Selection
		off  bool // the condition of the group a does not hold
		want string
	}{
		"whole":                       {want: "a/x b c a/y d"},
		"a child is skipped":          {sel: engine.Selection{Skip: []string{"a/x"}}, want: "b c a/y d"},
		"the group is skipped":        {sel: engine.Selection{Skip: []string{"a"}}, want: "b c d"},
		"the group has nothing to do": {off: true, want: "b c d"},
		"alone":                       {sel: engine.Selection{Only: "d"}, want: "d"},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var ran []string
			half := make(chan struct{}) // closed when c is half done
			run := func(name string, work func(context.Context, *engine.Env)) func(context.Context, *engine.Env) error {
				return func(ctx context.Context, e *engine.Env) error {
					if name == "a/y" { // the group a is still busy when b and c run
						<-half
					}
					mu.Lock()
					ran = append(ran, name)
					mu.Unlock()
					work(ctx, e)
					return nil
				}
			}
			none := func(context.Context, *engine.Env) {}
			phases := []engine.Phase{{Parallel: true, Phases: []engine.Phase{
				{Name: "a", When: func(*node.Node) (bool, string) { return !c.off, "not today" },
					Phases: []engine.Phase{{Name: "x", Run: run("a/x", none)}, {Name: "y", Run: run("a/y", none)}}},
				{Name: "b", Run: run("b", none), After: []engine.Milestone{"a/x"}},
				{Name: "c", Run: run("c", func(context.Context, *engine.Env) { close(half) }),
					After: []engine.Milestone{"b"}, Points: []engine.Milestone{"c:half"}},
				{Name: "d", Run: run("d", none), After: []engine.Milestone{"a", "c:half"}},
			}}}
			e, _ := env(fake.New())
			e.Node = engine.Resolved(&node.Node{})
			if err := engine.Run(t.Context(), e, phases, c.sel); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(ran, " "); got != c.want {
				t.Errorf("ran %q, want %q", got, c.want)
			}
		})
	}
}

// TestDeferredWorkHasPlaceOfReachingPhase checks that what a phase has deferred is shown with its name, at
// the place of the phase that does it, so that the text does not depend on which one is faster.
func TestDeferredWorkHasPlaceOfReachingPhase(t *testing.T) {
	var place []engine.Slot
	e := engine.New(engine.Env{World: fake.New(), Emit: func(e engine.Event) {
		if e.Kind == engine.Info && e.Phase == "first" {
			place = e.Place
		}
	}})
	group := []engine.Phase{
		{Name: "first", Run: func(ctx context.Context, e *engine.Env) error {
			return e.Defer(ctx, "second:half", func(_ context.Context, e *engine.Env) error {
				e.Say("done")
				return nil
			})
		}},
		{Name: "second", After: []engine.Milestone{"first"}, Points: []engine.Milestone{"second:half"}, Run: func(ctx context.Context, e *engine.Env) error {
			return e.Reach(ctx, "second:half")
		}},
	}
	if err := engine.Run(t.Context(), e, []engine.Phase{{Parallel: true, Phases: group}},
		engine.Selection{}); err != nil {
		t.Fatal(err)
	}
	if len(place) != 1 || place[0].Index != 1 {
		t.Errorf("the work was done at %+v, want the second branch", place)
	}
}

// TestInterruptNamesPhaseAtWork checks that the error of an interrupted run is that of a phase at work, and
// not of one that waits for it. The phase at work may notice the interrupt only where a part of it begins.
func TestInterruptNamesPhaseAtWork(t *testing.T) {
	for round := range 40 {
		interrupt := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		group := []engine.Phase{{Name: "work", Run: func(ctx context.Context, _ *engine.Env) error {
			cancel(interrupt)
			time.Sleep(time.Millisecond)
			if round%2 == 0 {
				return nil
			}
			return context.Cause(ctx)
		}, Phases: []engine.Phase{{Name: "part", Run: func(context.Context, *engine.Env) error { return nil }}}}}
		for _, name := range []string{"a", "b", "c"} {
			group = append(group, engine.Phase{Name: name, After: []engine.Milestone{"work"},
				Run: func(context.Context, *engine.Env) error { return nil }})
		}
		e, _ := env(fake.New())
		err := engine.Run(ctx, e, []engine.Phase{{Parallel: true, Phases: group}}, engine.Selection{})
		var failed *engine.PhaseError
		if !errors.As(err, &failed) || !strings.HasPrefix(failed.Phase, "work") || !errors.Is(err, interrupt) {
			t.Fatalf("got %v", err)
		}
	}
}

// TestPhaseOnlyWithOthers checks that a phase runs only beside one of those that it is for.
func TestPhaseOnlyWithOthers(t *testing.T) {
	for name, c := range map[string]struct {
		sel engine.Selection
		ran bool
	}{
		"whole":       {engine.Selection{}, true},
		"one of them": {engine.Selection{Skip: []string{"b"}}, true},
		"none":        {engine.Selection{Skip: []string{"a", "b"}}, false},
	} {
		ran := false
		helper := engine.Phase{Name: "helper", OnlyWith: []string{"a", "b"}, Hidden: true,
			Run: func(context.Context, *engine.Env) error { ran = true; return nil }}
		e, _ := env(fake.New())
		if err := engine.Run(t.Context(), e, []engine.Phase{helper, phase("a"), phase("b")},
			c.sel); err != nil || ran != c.ran {
			t.Errorf("%s: it ran: %t, %v", name, ran, err)
		}
	}
}
