package laws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/report"
	"kubeadm/internal/world/fault"
)

// Results and events of every workflow match the schema that is documented for programs: of a run
// that succeeds, that fails at any of some changes, that is interrupted, and of a dry run.
func TestRunOutputMatchesSchema(t *testing.T) {
	schema := compileSchema(t)
	for _, s := range append(subjects(), newRenewSubject()) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			whole := s.newRun(s.machine(t)).mustSucceed(t)
			checkRunOutput(t, schema, renderOutput(t, s.name, whole, false), whole)
			dry := s.newRun(s.machine(t))
			dry.dryRun = true
			out := dry.execute(t)
			checkRunOutput(t, schema, renderOutput(t, s.name, out, true), out)
			n := len(whole.did)
			for _, at := range []int{0, n / 3, n / 2, n - 1} {
				failing := s.newRun(s.machine(t))
				failing.fault = &fault.World{At: at}
				out := failing.execute(t)
				checkRunOutput(t, schema, renderOutput(t, s.name, out, false), out)
				stopped := s.newRun(s.machine(t))
				stopped.stop = at + 1
				out = stopped.execute(t)
				checkRunOutput(t, schema, renderOutput(t, s.name, out, false), out)
			}
		})
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile("../../docs/reference/run.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// rendered is what programs get of a run.
type rendered struct {
	stream []byte // lines of JSON
	result report.Result
	trace  []byte
}

// text is all of it.
func (r rendered) text(t *testing.T) string {
	t.Helper()
	result, err := json.Marshal(r.result)
	if err != nil {
		t.Fatal(err)
	}
	return string(slices.Concat(r.stream, result, r.trace))
}

func renderOutput(t *testing.T, name string, out outcome, dryRun bool) (r rendered) {
	t.Helper()
	// The first phase began before its event.
	start, end := out.events[0].Time.Add(-time.Second), out.events[len(out.events)-1].Time
	var lines bytes.Buffer
	stream := &report.Stream{To: &lines}
	recorder := report.NewRecorder(name, start)
	tracer := &report.Trace{Command: name, Start: start}
	for _, e := range out.events {
		e.Preview = dryRun
		for _, to := range []report.Renderer{stream, recorder, tracer} {
			to.Emit(e)
		}
	}
	r.result = recorder.Result(out.err, false, end.Add(time.Second))
	if err := stream.End(r.result); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.trace, err = tracer.Encode(r.result.Outcome, end); err != nil {
		t.Fatal(err)
	}
	r.stream = lines.Bytes()
	return r
}

// checkRunOutput compares the output of a run with the schema, and with what the run did.
func checkRunOutput(t *testing.T, schema *jsonschema.Schema, r rendered, out outcome) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(r.stream)), "\n")
	for i, line := range lines {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err == nil {
			err = schema.Validate(document)
		}
		if err != nil {
			t.Fatalf("line %d of %d: %v\n%s", i+1, len(lines), err, line)
		}
		kind := document.(map[string]any)["kind"]
		if isLast := i == len(lines)-1; isLast != (kind == "RunResult") {
			t.Errorf("line %d of %d is a %s", i+1, len(lines), kind)
		}
	}
	if failed := r.result.Outcome != report.Succeeded; failed != (out.err != nil) {
		t.Errorf("the outcome is %s: %v", r.result.Outcome, out.err)
	}
	if out.err != nil && (r.result.Error.Phase == "" || r.result.Error.Message != out.err.Error()) {
		t.Errorf("error %+v, want that of %v", r.result.Error, out.err)
	}
	checkPhasesEnd(t, out.events, r.result.Phases)
	effects := map[string]change.Effect{}
	for _, f := range r.result.Files {
		effects[f.Path] = f.Effect
	}
	last := map[string]change.Change{}
	for _, c := range out.did {
		last[c.Target()] = c
	}
	for _, c := range out.did {
		w, ok := c.(change.WriteFile)
		if _, removed := last[c.Target()].(change.Remove); ok && removed {
			continue // it existed only while the command ran, or is listed as removed
		}
		if ok && !strings.HasPrefix(w.Path, dryRunDir+"/") && !slices.Contains([]change.Effect{change.Created, change.Changed, change.Removed,
			change.Reverted, change.NotMade}, effects[w.Path]) {
			t.Errorf("%s was written, but the result says %q", w.Path, effects[w.Path])
		}
	}
	checkTrace(t, r.trace, out.events)
}

// checkPhasesEnd checks that each phase that began has an end, and is in the result.
func checkPhasesEnd(t *testing.T, events []engine.Event, phases []report.PhaseResult) {
	t.Helper()
	begun := map[string]int{}
	for _, e := range events {
		switch e.Kind {
		case engine.Started:
			begun[e.Phase]++
		case engine.Finished, engine.Failed:
			begun[e.Phase]--
			if e.Start.IsZero() || e.Start.After(e.Time) {
				t.Errorf("phase %s began at %s and ended at %s", e.Phase, e.Start, e.Time)
			}
			if !slices.ContainsFunc(phases, func(p report.PhaseResult) bool {
				return p.Name == e.Phase
			}) {
				t.Errorf("phase %s is not in the result", e.Phase)
			}
		}
	}
	for phase, open := range begun {
		if open > 0 {
			t.Errorf("phase %s began and has no end", phase)
		}
	}
}

// checkTrace decodes a trace, and checks that it has the spans of the run, and that the spans of
// each thread are nested, as viewers demand.
func checkTrace(t *testing.T, data []byte, events []engine.Event) {
	t.Helper()
	var trace struct {
		TraceEvents []struct {
			Name, Cat, Ph string
			Time          float64 `json:"ts"`
			Duration      float64 `json:"dur"`
			Thread        int     `json:"tid"`
		}
	}
	if err := json.Unmarshal(data, &trace); err != nil {
		t.Fatal(err)
	}
	want, got := map[string]int{"run": 1}, map[string]int{}
	for _, e := range events {
		switch e.Kind {
		case engine.Finished, engine.Failed:
			want["phase"]++
		case engine.Did, engine.Unchanged, engine.ChangeFailed:
			want["change"]++
		case engine.Waited, engine.WaitFailed:
			want["wait"]++
		}
	}
	open := map[int][]float64{} // the ends of the spans that a thread is in
	for _, e := range trace.TraceEvents {
		if e.Ph != "X" {
			continue
		}
		got[e.Cat]++
		ends := open[e.Thread]
		for len(ends) > 0 && ends[len(ends)-1] <= e.Time {
			ends = ends[:len(ends)-1]
		}
		if len(ends) > 0 && e.Time+e.Duration > ends[len(ends)-1] {
			t.Errorf("%s %q of thread %d, from %v for %v, overlaps a span that ends at %v", e.Cat,
				e.Name, e.Thread, e.Time, e.Duration, ends[len(ends)-1])
		}
		open[e.Thread] = append(ends, e.Time+e.Duration)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the trace has the spans %v, want %v", got, want)
	}
}
