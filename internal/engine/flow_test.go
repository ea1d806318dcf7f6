package engine_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// log is what a run says, as "kind phase: text".
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) emit(e engine.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines,
		strings.TrimSuffix(fmt.Sprintf("%s %s: %s", e.Kind, e.Phase, e.Text), ": "))
}

func (l *log) has(line string) bool { return slices.Contains(l.lines, line) }

func env(w world.World) (*engine.Env, *log) {
	l := &log{}
	n := &node.Node{}
	return engine.New(engine.Env{World: w, Emit: l.emit,
		Node: func(context.Context) (*node.Node, error) { return n, nil }}), l
}

// phase says its name when it runs.
func phase(name string, below ...engine.Phase) engine.Phase {
	return engine.Phase{Name: name, Phases: below,
		Run: func(_ context.Context, e *engine.Env) error {
			e.Say("ran")
			return nil
		}}
}

func tree() []engine.Phase {
	needy := phase("d")
	needy.Needs = []string{"a/b"}
	return []engine.Phase{phase("a", phase("b"), engine.Phase{Phases: []engine.Phase{phase("c")}}),
		needy}
}

func ran(t *testing.T, sel engine.Selection) string {
	t.Helper()
	e, l := env(fake.New())
	if err := engine.Run(t.Context(), e, tree(), sel); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, line := range l.lines {
		if address, ok := strings.CutSuffix(line, ": ran"); ok {
			all = append(all, strings.TrimPrefix(address, "message "))
		}
	}
	return strings.Join(all, " ")
}

func TestSelectedPhasesRunInOrder(t *testing.T) {
	for _, c := range []struct {
		sel  engine.Selection
		want string
	}{
		{engine.Selection{}, "a a/b a/c d"},
		{engine.Selection{Skip: []string{"d"}}, "a a/b a/c"},
		{engine.Selection{Skip: []string{"a/c"}}, "a a/b d"},
		{engine.Selection{Skip: []string{"a", "d"}}, ""},
		{engine.Selection{Only: "a"}, "a a/b a/c"},
		{engine.Selection{Only: "a/c"}, "a/c"},
	} {
		if got := ran(t, c.sel); got != c.want {
			t.Errorf("%+v ran %q, want %q", c.sel, got, c.want)
		}
	}
}

func TestSelectionIsCheckedBeforeAnythingRuns(t *testing.T) {
	for word, sel := range map[string]engine.Selection{
		`unknown phase "e"; the phases are: a, a/b, a/c, d`:      {Skip: []string{"e"}},
		`unknown phase "a/e"`:                                    {Only: "a/e"},
		`phase "d" needs phase "a/b", which is not part of this`: {Skip: []string{"a"}},
	} {
		e, l := env(fake.New())
		if err := engine.Run(t.Context(), e, tree(), sel); err == nil ||
			!strings.Contains(err.Error(), word) || len(l.lines) > 0 {
			t.Errorf("%+v: %v, want %q; said %v", sel, err, word, l.lines)
		}
	}
}

func TestPhaseConditionIsReported(t *testing.T) {
	p := phase("etcd")
	p.When = func(*node.Node) (bool, string) { return false, "etcd is external" }
	e, l := env(fake.New())
	if err := engine.Run(t.Context(), e, []engine.Phase{p}, engine.Selection{}); err != nil ||
		!l.has("phaseSkipped etcd: etcd is external") || len(l.lines) != 1 {
		t.Errorf("%v, said %q", err, l.lines)
	}
}

func TestNamelessPhaseIsPartOfParent(t *testing.T) {
	part := func(name string, when bool) engine.Phase {
		p := phase("")
		p.Run = func(_ context.Context, e *engine.Env) error { e.Say("%s", name); return nil }
		p.When = func(*node.Node) (bool, string) { return when, "pointless" }
		return p
	}
	broken := engine.Phase{Run: func(context.Context, *engine.Env) error {
		return errors.New("no luck")
	}}
	tree := []engine.Phase{phase("a", part("first", true), part("second", false)),
		phase("b", broken)}
	for _, c := range []struct {
		sel       engine.Selection
		said, err string
	}{
		{engine.Selection{Only: "a"}, "phaseStarted a, message a: ran, message a: first, phaseFinished a", ""},
		{engine.Selection{Skip: []string{"a"}},
			"phaseSkipped a: skipped by the user, phaseStarted b, message b: ran, phaseFailed b: phase b: no luck",
			"phase b: no luck"},
	} {
		e, l := env(fake.New())
		err := engine.Run(t.Context(), e, tree, c.sel)
		if got := strings.Join(l.lines, ", "); got != c.said ||
			fmt.Sprint(err) != cmp.Or(c.err, "<nil>") {
			t.Errorf("%+v: %v, said %s", c.sel, err, got)
		}
	}
}

func TestErrorNamesPhaseAndStopsRun(t *testing.T) {
	broken := engine.Phase{Name: "b",
		Run: func(context.Context, *engine.Env) error { return errors.New("no luck") }}
	e, l := env(fake.New())
	err := engine.Run(t.Context(), e,
		[]engine.Phase{{Name: "a", Phases: []engine.Phase{broken}}, phase("c")}, engine.Selection{})
	if err == nil || err.Error() != "phase a/b: no luck" || !l.has("phaseFailed a/b: phase a/b: no luck") ||
		l.has("message c: ran") {
		t.Errorf("%v, said %q", err, l.lines)
	}
}

func TestFirstSiblingErrorIsReturned(t *testing.T) {
	second := make(chan struct{})
	fail := func(name string, before func()) engine.Phase {
		return engine.Phase{Name: name,
			Run: func(context.Context, *engine.Env) error { before(); return errors.New("broken") }}
	}
	e, _ := env(fake.New())
	err := engine.Run(t.Context(), e,
		[]engine.Phase{{Name: "all", Parallel: true, Phases: []engine.Phase{
			fail("first", func() { <-second }), fail("second", func() { close(second) }),
		}}}, engine.Selection{})
	if err == nil || err.Error() != "phase all/first: broken" {
		t.Error(err)
	}
}

func TestDoneChangeIsSkipped(t *testing.T) {
	e, l := env(fake.New())
	dir := change.MakeDir{Path: "/etc/kubernetes", Mode: 0o755}
	if err := e.Do(t.Context(), dir, dir); err != nil {
		t.Fatal(err)
	}
	if want := []string{`changeStarted : create directory "/etc/kubernetes"`, `changeDone : create directory "/etc/kubernetes"`,
		`changeNotNeeded : create directory "/etc/kubernetes"`}; !slices.Equal(l.lines, want) {
		t.Errorf("said %q, want %q", l.lines, want)
	}
}

func TestSkipWithoutEffectIsWarnedAbout(t *testing.T) {
	for _, c := range []struct {
		skip []string
		want string
		runs bool
	}{
		{[]string{"a/all", "a/all"},
			`warning : skipping "a/all" has no effect: skip "a" to skip the phase and all of its children`, true},
		{[]string{"a/all", "a", "d"}, "", false},
		{[]string{"a/b", "d"}, "", true},
	} {
		e, l := env(fake.New())
		if err := engine.Run(t.Context(), e, tree(), engine.Selection{Skip: c.skip}); err != nil {
			t.Fatal(err)
		}
		warnings := slices.DeleteFunc(slices.Clone(l.lines),
			func(line string) bool { return !strings.HasPrefix(line, "warning") })
		if strings.Join(warnings, "\n") != c.want || l.has("message a/c: ran") != c.runs {
			t.Errorf("without %q: %q", c.skip, l.lines)
		}
	}
}

func TestChangeReportsProgress(t *testing.T) {
	w := fake.New()
	w.SlowImages = []string{"a"}
	e, l := env(w)
	if err := e.Do(t.Context(), change.PullImage{Ref: "a", Always: true},
		change.PullImage{Ref: "b", Always: true}); err != nil {
		t.Fatal(err)
	}
	want := []string{`changeStarted : pull image "a"`,
		`changeProgress : pull image "a": attempt 1 of 5 failed, retrying: i/o timeout`,
		`changeDone : pull image "a"`, `changeStarted : pull image "b"`, `changeDone : pull image "b"`}
	if !slices.Equal(l.lines, want) {
		t.Errorf("said %q, want %q", l.lines, want)
	}
}

// slow counts how many of its changes are under way at once. Each takes until there are as many as
// expected, and a little longer.
type slow struct {
	*fake.World
	expected  int
	mu        sync.Mutex
	now, most int
}

func (s *slow) Do(ctx context.Context, c change.Change) error {
	s.under(1)
	defer s.under(-1)
	for begun := time.Now(); s.under(0) < s.expected && time.Since(begun) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	return s.World.Do(ctx, c)
}

// under counts more changes that are under way, and tells how many there were at most.
func (s *slow) under(more int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += more
	s.most = max(s.most, s.now)
	return s.most
}

func TestChangesOfOneTargetAreSerialized(t *testing.T) {
	pull := func(ref string) change.Change { return change.PullImage{Ref: ref, Always: true} }
	for most, cs := range map[int][]change.Change{1: {pull("a"), pull("a"), pull("a")},
		3: {pull("a"), pull("b"), pull("c")}} {
		w := &slow{World: fake.New(), expected: most}
		e, _ := env(w)
		if err := e.DoAll(t.Context(), cs...); err != nil {
			t.Fatal(err)
		}
		if got := w.under(0); got != most {
			t.Errorf("%d of %v were under way at once, want %d", got, cs, most)
		}
	}
}

// interrupted ends the context while a change is under way.
type interrupted struct {
	*fake.World
	stop func()
}

func (w interrupted) Do(ctx context.Context, c change.Change) error {
	w.stop()
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.World.Do(ctx, c)
}

func TestInterruptCompletesCurrentChange(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	w := fake.New()
	e, _ := env(interrupted{w, func() { stop(errors.New("interrupted by the user")) }})
	err := e.Do(ctx, change.MakeDir{Path: "/first"}, change.MakeDir{Path: "/second"})
	if err == nil || !strings.Contains(err.Error(), "interrupted by the user") {
		t.Errorf("the error does not say why the run ended: %v", err)
	}
	_, first := w.Files["/first"]
	_, second := w.Files["/second"]
	if !first || second {
		t.Errorf("first made: %v, second made: %v", first, second)
	}
}

func TestInterruptIsNamed(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	e, _ := env(fake.New())
	err := engine.Run(ctx, e, []engine.Phase{{Name: "start", Run: func(context.Context, *engine.Env) error {
		stop(errors.New("interrupted by the user"))
		return errors.New("use of closed network connection")
	}}}, engine.Selection{})
	if want := "phase start: interrupted by the user: use of closed network connection"; err == nil ||
		err.Error() != want {
		t.Errorf("the error is %v, not %q", err, want)
	}
}

func TestLongWaitReportsCause(t *testing.T) {
	w := fake.New()
	at := w.Now()
	w.Clock = func() time.Time { at = at.Add(time.Second); return at }
	looks := 0
	e, l := env(w)
	err := e.Await(t.Context(),
		world.Condition{Name: "the moon", Timeout: time.Minute,
			Check: func(context.Context, state.Reader) error {
				if looks++; looks < 25 {
					return errors.New("it is day")
				}
				return nil
			}})
	reminders := 0
	for _, line := range l.lines {
		if line == "message : still waiting for the moon: it is day" {
			reminders++
		}
	}
	if err != nil || reminders != 2 {
		t.Errorf("%v; %d reminders in 25 looks, want 2: %q", err, reminders, l.lines)
	}
}

func TestDeferredWork(t *testing.T) {
	early := engine.Phase{Name: "early", Run: func(ctx context.Context, e *engine.Env) error {
		return e.Defer(ctx, "late:half", func(_ context.Context, e *engine.Env) error {
			e.Say("done")
			return nil
		})
	}}
	late := engine.Phase{Name: "late", Points: []engine.Milestone{"late:half"}, Run: func(ctx context.Context, e *engine.Env) error {
		e.Say("now")
		return cmp.Or(e.Reach(ctx, "late:half"), e.Reach(ctx, "late:half"))
	}}
	for name, c := range map[string]struct {
		sel  engine.Selection
		want []string
	}{
		"by the later phase": {engine.Selection{},
			[]string{"message late: now", "message early: done"}},
		"at once without that phase": {engine.Selection{Only: "early"},
			[]string{"message early: done"}},
		"at once where it is left out": {engine.Selection{Skip: []string{"late"}},
			[]string{"message early: done"}},
		"not where it was left out": {engine.Selection{Skip: []string{"early"}},
			[]string{"message late: now"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, l := env(fake.New())
			if err := engine.Run(t.Context(), e, []engine.Phase{early, late}, c.sel); err != nil {
				t.Fatal(err)
			}
			said := slices.DeleteFunc(slices.Clone(l.lines),
				func(line string) bool { return !strings.HasPrefix(line, "message ") })
			if !slices.Equal(said, c.want) {
				t.Errorf("%q, not %q", said, c.want)
			}
		})
	}
}
