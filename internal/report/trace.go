package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"kubeadm/internal/engine"
)

// Trace collects the phases, changes, waits and warnings of a run as a timeline that Perfetto and
// chrome://tracing show. Its form is the JSON object format of
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
type Trace struct {
	Command string    // "init"
	Start   time.Time // of the run; times in the trace count from here

	mu     sync.Mutex
	events []engine.Event
}

// traceFile is the document.
type traceFile struct {
	TraceEvents     []traceEvent      `json:"traceEvents"`
	DisplayTimeUnit string            `json:"displayTimeUnit"`
	OtherData       map[string]string `json:"otherData"`
}

// traceEvent is an entry of the timeline. Times are in microseconds.
type traceEvent struct {
	Name     string            `json:"name"`
	Category string            `json:"cat,omitempty"`
	Phase    string            `json:"ph"` // of the format: "X" a span, "i" an instant, "M" metadata
	Time     float64           `json:"ts"`
	Duration float64           `json:"dur,omitempty"`
	Process  int               `json:"pid"`
	Thread   int               `json:"tid"`
	Scope    string            `json:"s,omitempty"` // of an instant: "t", its thread
	Args     map[string]string `json:"args,omitempty"`
}

// Emit collects one event.
func (t *Trace) Emit(e engine.Event) {
	if category(e.Kind) == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

// category is that of the events of a kind in the timeline; empty for events that are not in it.
func category(k engine.Kind) string {
	switch k {
	case engine.Finished, engine.Failed:
		return "phase"
	case engine.Did, engine.Unchanged, engine.ChangeFailed:
		return "change"
	case engine.Waited, engine.WaitFailed:
		return "wait"
	case engine.Warned:
		return "warning"
	}
	return ""
}

// Encode returns the timeline of a run that ends now with that outcome.
func (t *Trace) Encode(outcome Outcome, now time.Time) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := traceFile{DisplayTimeUnit: "ms", OtherData: map[string]string{"command": t.Command,
		"outcome": string(outcome), "start": t.Start.UTC().Format(time.RFC3339Nano)}}
	f.TraceEvents = []traceEvent{
		{Name: "process_name", Phase: "M", Process: 1, Thread: 1,
			Args: map[string]string{"name": "kubeadm " + t.Command}},
		{Name: "kubeadm " + t.Command, Category: "run", Phase: "X", Process: 1, Thread: 1,
			Duration: t.at(now), Args: map[string]string{"outcome": string(outcome)}},
	}
	threads := threadsOf(t.events)
	for _, e := range t.events {
		entry := traceEvent{Name: traceName(e), Category: category(e.Kind), Phase: "X",
			Time: t.at(e.Start), Duration: t.at(e.Time) - t.at(e.Start), Process: 1,
			Thread: threads[placeKey(e.Place)], Args: map[string]string{"event": string(e.Kind)}}
		if e.Start.IsZero() {
			entry.Phase, entry.Scope, entry.Time, entry.Duration = "i", "t", t.at(e.Time), 0
		}
		for name, value := range map[string]string{"phase": e.Phase, "message": messageOf(e),
			"effect": string(e.Effect)} {
			if value != "" {
				entry.Args[name] = value
			}
		}
		f.TraceEvents = append(f.TraceEvents, entry)
	}
	slices.SortStableFunc(f.TraceEvents[1:], func(a, b traceEvent) int { // outer spans first
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(b.Duration, a.Duration))
	})
	return json.Marshal(f)
}

// at is a time in the timeline.
func (t *Trace) at(at time.Time) float64 {
	return float64(at.Sub(t.Start)) / float64(time.Microsecond)
}

func traceName(e engine.Event) string {
	switch category(e.Kind) {
	case "phase":
		return e.Phase
	case "wait":
		return "wait for " + Redact(e.Subject)
	case "warning":
		return "warning"
	}
	return Redact(e.Change.String())
}

func placeKey(place []engine.Slot) string { return fmt.Sprint(place) }

// threadsOf assigns each branch to a thread of the timeline, so that branches that overlap have
// different ones. The first thread is that of the run itself.
func threadsOf(events []engine.Event) map[string]int {
	type branch struct {
		key        string
		start, end time.Time
	}
	var branches []branch
	widen := func(key string, start, end time.Time) {
		i := slices.IndexFunc(branches, func(b branch) bool { return b.key == key })
		if i < 0 {
			branches = append(branches, branch{key, start, end})
			return
		}
		if start.Before(branches[i].start) {
			branches[i].start = start
		}
		if end.After(branches[i].end) {
			branches[i].end = end
		}
	}
	for _, e := range events {
		start := e.Start
		if start.IsZero() {
			start = e.Time
		}
		for depth := 1; depth <= len(e.Place); depth++ { // a branch lasts as long as those in it
			widen(placeKey(e.Place[:depth]), start, e.Time)
		}
	}
	slices.SortStableFunc(branches, func(a, b branch) int { return a.start.Compare(b.start) })
	threads := map[string]int{placeKey(nil): 1}
	var ends []time.Time // of the last branch on each thread after the first
	for _, b := range branches {
		free := slices.IndexFunc(ends, func(end time.Time) bool { return !end.After(b.start) })
		if free < 0 {
			free = len(ends)
			ends = append(ends, b.end)
		}
		ends[free] = b.end
		threads[b.key] = free + 2
	}
	return threads
}
