package laws

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/report"
)

func TestParallelPhasesHaveDisjointTargets(t *testing.T) {
	forEachSubject(t, func(t *testing.T, s subject) {
		type writer struct {
			branch
			phase string
		}
		writers := map[string]map[int]writer{} // target: group: what changed it last
		first := map[branch]string{}           // first phase of a branch
		for _, e := range s.newRun(s.machine(t)).mustSucceed(t).events {
			for _, slot := range e.Place {
				if b := (branch{slot.Group, slot.Index}); first[b] == "" {
					first[b] = e.Phase
				}
			}
			if e.Change == nil {
				continue
			}
			target := e.Change.Target()
			if writers[target] == nil {
				writers[target] = map[int]writer{}
			}
			for _, slot := range e.Place {
				own := branch{slot.Group, slot.Index}
				other, ok := writers[target][slot.Group]
				if ok && other.branch != own && !waitsFor(s.phases, first[own], other.phase) {
					t.Errorf("%s changes %s, and so does %s, which runs in parallel", e.Phase,
						target, other.phase)
				}
				writers[target][slot.Group] = writer{own, e.Phase}
			}
		}
	})
}

// branch is one of a group of phases that run in parallel.
type branch struct{ group, index int }

// waitsFor reports whether a phase begins after another one has ended, or after one that does. A phase that
// begins at a point of another one, or after a part of it, runs beside the rest of it.
func waitsFor(phases []engine.Phase, later, earlier string) bool {
	known := map[string]bool{} // phases that the later one waits for
	var add func(address string)
	add = func(address string) {
		engine.Walk(phases, func(at string, p engine.Phase) {
			if !isAtOrBelow(address, at) && !isAtOrBelow(at, address) {
				return
			}
			for _, m := range milestonesBelow(p) {
				if address := string(m); !strings.Contains(address, ":") && !known[address] {
					known[address] = true
					add(address)
				}
			}
		})
	}
	add(later)
	for m := range known {
		if isAtOrBelow(earlier, m) {
			return true
		}
	}
	return false
}

func isAtOrBelow(address, top string) bool {
	return address == top || strings.HasPrefix(address, top+"/")
}

// milestonesBelow are those that p and its nameless children wait for.
func milestonesBelow(p engine.Phase) (all []engine.Milestone) {
	all = slices.Clone(p.After)
	for _, child := range p.Phases {
		if child.Name == "" {
			all = append(all, milestonesBelow(child)...)
		}
	}
	return all
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

// renderRun returns the output of a run by a clock that nearly stands still: later is later, but no wait takes a
// millisecond.
func renderRun(t testing.TB, s subject, phases []engine.Phase, conditional bool) string {
	t.Helper()
	r := s.newRun(s.machine(t))
	now := r.machine.Now()
	var reads atomic.Int64
	r.machine.Clock = func() time.Time { return now.Add(time.Duration(reads.Add(1))) }
	r.phases, r.dryRun = phases, conditional
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
// arrange, but each after those that it waits for.
func serialPhases(ps []engine.Phase, arrange func([]engine.Phase)) []engine.Phase {
	ps = slices.Clone(ps)
	for i := range ps {
		ps[i].Phases = serialPhases(ps[i].Phases, arrange)
		if ps[i].Parallel {
			ps[i].Parallel = false
			arrange(ps[i].Phases)
			ps[i].Phases = sortByMilestones(ps[i].Phases)
		}
	}
	return ps
}

// sortByMilestones moves phases behind those of their group that they wait for, and keeps the order
// otherwise.
func sortByMilestones(group []engine.Phase) (sorted []engine.Phase) {
	for left := slices.Clone(group); len(left) > 0; {
		next := slices.IndexFunc(left, func(p engine.Phase) bool {
			return !slices.ContainsFunc(left, func(other engine.Phase) bool {
				return other.Name != p.Name && slices.ContainsFunc(milestonesBelow(p),
					func(m engine.Milestone) bool {
						address, _, _ := strings.Cut(string(m), ":")
						return isAtOrBelow(address, other.Name)
					})
			})
		})
		sorted, left = append(sorted, left[next]), slices.Delete(left, next, next+1)
	}
	return sorted
}
