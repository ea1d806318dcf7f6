package laws

import (
	"bytes"
	"regexp"
	"slices"
	"testing"
	"time"

	"kubeadm/internal/flow"
	"kubeadm/internal/report"
)

func TestSiblingsTouchDisjointTargets(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		touched := map[string]map[int]int{} // target: group: branch that touches it
		for _, e := range s.on(s.machine(t)).succeed(t).events {
			if e.Change == nil {
				continue
			}
			target := e.Change.Target()
			if touched[target] == nil {
				touched[target] = map[int]int{}
			}
			for _, slot := range e.Place {
				if other, ok := touched[target][slot.Group]; ok && other != slot.Index {
					t.Errorf("%s touches %s, and so does another that runs beside it", e.Phase, target)
				}
				touched[target][slot.Group] = slot.Index
			}
		}
	})
}

// Whatever the order in which siblings come to run, the same is done and the machine ends the same.
func TestSiblingsComeInAnyOrder(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		beside := s.on(s.machine(t))
		out := beside.succeed(t)
		for order, arrange := range map[string]func([]flow.Phase){"forwards": func([]flow.Phase) {}, "backwards": slices.Reverse[[]flow.Phase]} {
			r := s.on(s.machine(t))
			r.phases = oneByOne(s.phases, arrange)
			again := r.succeed(t)
			if diff := diff(sorted(of(out.did)), sorted(of(again.did))); diff != "" {
				t.Errorf("%s something else is done (-side by side +one by one):\n%s", order, diff)
			}
			if diff := diff(describe(t, beside.machine, out.key), describe(t, r.machine, again.key)); diff != "" {
				t.Errorf("%s the machine ends otherwise (-side by side +one by one):\n%s", order, diff)
			}
		}
	})
}

func TestTextOfAParallelRunIsThatOfASerialOne(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		for _, conditional := range []bool{false, true} {
			serial := shown(t, s, oneByOne(s.phases, func([]flow.Phase) {}), conditional)
			for range 3 {
				if diff := diff(serial, shown(t, s, s.phases, conditional)); diff != "" {
					t.Errorf("the text differs (-serial +parallel):\n%s", diff)
				}
			}
		}
	})
}

// ofOwnCA matches what a text shows of the CA that each run makes anew.
var ofOwnCA = regexp.MustCompile(`sha256:[0-9a-f]{64}|certificate-authority-data: \S+`)

// shown is all that the user reads of a run during which time stands still.
func shown(t testing.TB, s subject, phases []flow.Phase, conditional bool) string {
	t.Helper()
	r := s.on(s.machine(t))
	now := r.machine.Now()
	r.machine.Clock = func() time.Time { return now }
	r.phases, r.preview = phases, conditional
	var text bytes.Buffer
	to := &report.Text{Out: &text, Err: &text, Verbosity: 1, Conditional: conditional}
	for _, e := range r.succeed(t).events {
		to.Emit(e)
	}
	to.Close()
	return ofOwnCA.ReplaceAllString(nameless(text.String()), "<CA>")
}

// oneByOne is a workflow whose siblings run one after the other, as arranged.
func oneByOne(ps []flow.Phase, arrange func([]flow.Phase)) []flow.Phase {
	ps = slices.Clone(ps)
	for i := range ps {
		ps[i].Phases = oneByOne(ps[i].Phases, arrange)
		if ps[i].Parallel {
			ps[i].Parallel = false
			arrange(ps[i].Phases)
		}
	}
	return ps
}
