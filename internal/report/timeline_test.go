package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
)

func TestTimeline(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	trace := &Trace{Command: "init", Start: start}
	span := func(k engine.Kind, phase string, from, to time.Duration) engine.Event {
		return engine.Event{Kind: k, Phase: phase, Start: start.Add(from), Time: start.Add(to)}
	}
	wait := span(engine.Waited, "wait-control-plane", 2*time.Second, 9*time.Second)
	wait.Subject = "<kube-apiserver>"
	written := span(engine.Did, "certs/quick", time.Second, 1100*time.Millisecond)
	written.Change = change.MakeDir{Path: "/etc/kubernetes/pki"}
	for _, e := range []engine.Event{
		span(engine.Finished, "certs/quick", time.Second, time.Second+time.Millisecond), written,
		span(engine.Finished, "certs/ca", 500*time.Millisecond, time.Second),
		span(engine.Finished, "certs", 400*time.Millisecond, 2*time.Second),
		wait, span(engine.Failed, "wait-control-plane", 2*time.Second, 10*time.Second),
		{Kind: engine.Info, Phase: "certs", Text: "not in the picture", Time: start},
	} {
		trace.Emit(e)
	}
	picture := string(trace.Timeline(Failed, start.Add(10*time.Second)))
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
	}
	at := 0
	for _, want := range []string{"kubeadm init: failed after 10.00 s", ">certs</text>",
		"/etc/kubernetes/pki", ">ca</text>", ">wait-control-plane</text>", `class="failed"`,
		"wait for &lt;kube-apiserver&gt;, 7.00 s"} {
		found := strings.Index(picture[at:], want)
		if found < 0 {
			t.Fatalf("the picture lacks %q after byte %d:\n%s", want, at, picture)
		}
		at += found
	}
	for _, other := range []string{">quick</text>", "not in the picture"} {
		if strings.Contains(picture, other) {
			t.Errorf("the picture shows %q", other)
		}
	}
}

// An upgrade through two versions runs each phase twice, and a change that one phase defers is made in a
// later one.
func TestTimelineOfRepeatedPhases(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	trace := &Trace{Command: "upgrade apply", Start: start}
	span := func(k engine.Kind, phase string, from, to int) engine.Event {
		return engine.Event{Kind: k, Phase: phase, Subject: fmt.Sprint(from),
			Start: start.Add(time.Duration(from) * time.Second), Time: start.Add(time.Duration(to) * time.Second)}
	}
	for _, e := range []engine.Event{
		span(engine.Waited, "control-plane/etcd", 1, 2), span(engine.Finished, "control-plane/etcd", 1, 3),
		span(engine.Finished, "control-plane", 1, 3), span(engine.Waited, "control-plane", 4, 5),
		span(engine.Finished, "addon", 3, 6),
		span(engine.Waited, "control-plane/etcd", 7, 8), span(engine.Finished, "control-plane/etcd", 7, 9),
		span(engine.Finished, "control-plane", 7, 9), span(engine.Finished, "addon", 9, 10),
	} {
		trace.Emit(e)
	}
	var got []string
	for _, row := range trace.rows(10 * time.Second) {
		line := fmt.Sprintf("%s %.0f:", row.phase.Phase, row.start.Seconds())
		for _, e := range row.inner {
			line += " " + e.Subject
		}
		got = append(got, line)
	}
	want := []string{"control-plane 1:", "control-plane/etcd 1: 1", "addon 3: 4", "control-plane 7:",
		"control-plane/etcd 7: 7", "addon 9:"}
	if !slices.Equal(got, want) {
		t.Errorf("the rows are %q, want %q", got, want)
	}
}

func TestAxisStep(t *testing.T) {
	for total, want := range map[time.Duration]time.Duration{
		time.Millisecond:       time.Millisecond,
		11 * time.Millisecond:  2 * time.Millisecond,
		7 * time.Second:        time.Second,
		12 * time.Second:       2 * time.Second,
		167 * time.Second:      20 * time.Second,
		1001 * time.Second:     200 * time.Second,
		11 * time.Microsecond:  time.Millisecond,
		4999 * time.Nanosecond: time.Millisecond,
	} {
		if got := axisStep(total); got != want {
			t.Errorf("lines of a run of %s are %s apart, want %s", total, got, want)
		}
	}
}

func TestSummary(t *testing.T) {
	r := Result{Command: "init", DurationSeconds: 5.25, Phases: []PhaseResult{
		{Name: "preflight", DurationSeconds: 0.01}, {Name: "certs", DurationSeconds: 0.6},
		{Name: "certs/ca", DurationSeconds: 0.5}, {Name: "wait-control-plane", DurationSeconds: 4.1},
	}}
	if got := Summary(r); got != "" {
		t.Errorf("a run that changed nothing has the summary %q", got)
	}
	r.Files = []FileChange{{"/a", change.Created}, {"/b", change.LeftUnchanged}}
	r.Objects = []ObjectChange{{Name: "a", Effect: change.Created}, {Name: "b", Effect: change.Created}}
	want := "\n[init] 5.2 s, including wait-control-plane 4.1 s, certs 0.6 s; changed: 1 file, 2 objects\n"
	if got := Summary(r); got != want {
		t.Errorf("the summary is %q, want %q", got, want)
	}
	r.Preview = true
	if got := Summary(r); got != "" {
		t.Errorf("a dry run has the summary %q", got)
	}
}

func TestColors(t *testing.T) {
	var out, err strings.Builder
	text := Text{Out: &out, Err: &err, Style: &Style{Color: true}}
	text.Emit(engine.Event{Kind: engine.Warned, Phase: "certs", Text: "old"})
	text.Emit(engine.Event{Kind: engine.Warned, Phase: "preflight", Check: "Swap", Text: "on"})
	text.Emit(engine.Event{Kind: engine.Info, Phase: "certs", Text: "plain"})
	text.Close()
	Error(&err, text.Style, errors.New("broken"))
	want := "[certs] \x1b[33mwarning:\x1b[0m old\n\t\x1b[33m[WARNING Swap]\x1b[0m: on\n" +
		"\x1b[1;31merror:\x1b[0m broken\n"
	if err.String() != want || out.String() != "[certs] plain\n" {
		t.Errorf("shown are %q and %q, want %q", out.String(), err.String(), want)
	}
}
