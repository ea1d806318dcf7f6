package laws

import (
	"bytes"
	"regexp"
	"slices"
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/report"
)

func TestParallelPhasesHaveDisjointTargets(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		branches := map[string]map[int]int{} // target: group: branch that changes it
		for _, e := range s.newRun(s.machine(t)).mustSucceed(t).events {
			if e.Change == nil {
				continue
			}
			target := e.Change.Target()
			if branches[target] == nil {
				branches[target] = map[int]int{}
			}
			for _, slot := range e.Place {
				if other, ok := branches[target][slot.Group]; ok && other != slot.Index {
					t.Errorf("%s changes %s, and so does a phase that runs in parallel", e.Phase,
						target)
				}
				branches[target][slot.Group] = slot.Index
			}
		}
	})
}

// In whatever order parallel phases run, the changes and the resulting machine are the same.
func TestParallelPhasesRunInAnyOrder(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		beside := s.newRun(s.machine(t))
		out := beside.mustSucceed(t)
		for order, arrange := range map[string]func([]engine.Phase){"forwards": func([]engine.Phase) {}, "backwards": slices.Reverse[[]engine.Phase]} {
			r := s.newRun(s.machine(t))
			r.phases = serialPhases(s.phases, arrange)
			again := r.mustSucceed(t)
			if diff := diffLines(sortedLines(describeChanges(out.did)),
				sortedLines(describeChanges(again.did))); diff != "" {
				t.Errorf("%s the changes differ (-parallel +serial):\n%s", order, diff)
			}
			if diff := diffLines(describeMachine(t, beside.machine, out.key),
				describeMachine(t, r.machine, again.key)); diff != "" {
				t.Errorf("%s the machine differs (-parallel +serial):\n%s", order, diff)
			}
		}
	})
}

func TestParallelRunPrintsTextOfSerialRun(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		for _, conditional := range []bool{false, true} {
			serial := renderRun(t, s, serialPhases(s.phases, func([]engine.Phase) {}), conditional)
			for range 3 {
				if diff := diffLines(serial, renderRun(t, s, s.phases, conditional)); diff != "" {
					t.Errorf("the text differs (-serial +parallel):\n%s", diff)
				}
			}
		}
	})
}

// caPattern matches what a text shows of the CA, which differs in each run.
var caPattern = regexp.MustCompile(`sha256:[0-9a-f]{64}|certificate-authority-data: \S+`)

// renderRun returns the output of a run with a stopped clock.
func renderRun(t testing.TB, s subject, phases []engine.Phase, conditional bool) string {
	t.Helper()
	r := s.newRun(s.machine(t))
	now := r.machine.Now()
	r.machine.Clock = func() time.Time { return now }
	r.phases, r.preview = phases, conditional
	var text bytes.Buffer
	to := &report.Text{Out: &text, Err: &text, Verbosity: 1}
	for _, e := range r.mustSucceed(t).events {
		e.Preview = conditional
		to.Emit(e)
	}
	to.Close()
	return caPattern.ReplaceAllString(withoutGeneratedNames(text.String()), "<CA>")
}

// serialPhases is a workflow whose parallel phases run one after the other, in the order of
// arrange.
func serialPhases(ps []engine.Phase, arrange func([]engine.Phase)) []engine.Phase {
	ps = slices.Clone(ps)
	for i := range ps {
		ps[i].Phases = serialPhases(ps[i].Phases, arrange)
		if ps[i].Parallel {
			ps[i].Parallel = false
			arrange(ps[i].Phases)
		}
	}
	return ps
}
