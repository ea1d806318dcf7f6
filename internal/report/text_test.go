package report

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
)

// told renders events and returns both streams.
func told(t *Text, events ...engine.Event) (out, err string) {
	var o, e bytes.Buffer
	t.Out, t.Err = &o, &e
	for _, event := range events {
		t.Emit(event)
	}
	t.Close()
	return o.String(), e.String()
}

func said(text string, place ...engine.Slot) engine.Event {
	return engine.Event{Kind: engine.Info, Phase: "p", Text: text, Place: place}
}

func joined(place ...engine.Slot) engine.Event {
	return engine.Event{Kind: engine.Joined, Place: place}
}

func TestBranchesAreShownInTreeOrder(t *testing.T) {
	left, right := engine.Slot{Group: 1, Index: 0, Of: 2}, engine.Slot{Group: 1, Index: 1, Of: 2}
	inner, outer := engine.Slot{Group: 2, Index: 0, Of: 2}, engine.Slot{Group: 2, Index: 1, Of: 2}
	out, _ := told(&Text{},
		said("1"), said("5", right), said("2", left), said("4", left, outer), joined(right),
		joined(left, outer), said("3", left, inner), joined(left, inner), joined(left), said("6"))
	if want := "[p] 1\n[p] 2\n[p] 3\n[p] 4\n[p] 5\n[p] 6\n"; out != want {
		t.Errorf("told\n%swant\n%s", out, want)
	}
}

func TestFirstBranchIsShownAtOnce(t *testing.T) {
	var out bytes.Buffer
	text := &Text{Out: &out}
	text.Emit(said("at once", engine.Slot{Group: 1, Index: 0, Of: 2}))
	text.Emit(said("later", engine.Slot{Group: 1, Index: 1, Of: 2}))
	if out.String() != "[p] at once\n" {
		t.Errorf("told %q", out.String())
	}
}

func TestProgressIsShownAtOnce(t *testing.T) {
	var out, err bytes.Buffer
	text := &Text{Out: &out, Err: &err}
	last := []engine.Slot{{Group: 1, Index: 1, Of: 2}}
	text.Emit(said("later", last...))
	text.Emit(engine.Event{Kind: engine.Progress, Phase: "preflight", Text: "still at it",
		Place: last})
	if out.String() != "" || err.String() != "[preflight] still at it\n" {
		t.Errorf("told %q and %q", out.String(), err.String())
	}
}

// The administrator's rights are waited for while branches run, for the first that asks. Told
// after them, they would follow the key that upload-certs says last, which programs take from its
// last line.
func TestSharedStepsAreShownAtOnce(t *testing.T) {
	branch := engine.Slot{Group: 1, Index: 0, Of: 1}
	out, _ := told(&Text{}, said("storing", branch), said("waiting for the administrator's rights"),
		said("key", branch), joined(branch), said("next"))
	if want := "[p] storing\n[p] waiting for the administrator's rights\n[p] key\n[p] next\n"; out != want {
		t.Errorf("told\n%swant\n%s", out, want)
	}
}

func TestCloseShowsHeldBackEvents(t *testing.T) {
	out, _ := told(&Text{},
		said("of a branch that another kept waiting", engine.Slot{Group: 1, Index: 1, Of: 2}))
	if !strings.Contains(out, "kept waiting") {
		t.Errorf("told %q", out)
	}
}

func TestEventLines(t *testing.T) {
	file := change.WriteFile{Path: "/f", Data: []byte("text\n")}
	did := engine.Event{Kind: engine.Did, Phase: "certs/ca", Text: file.String(), Change: file}
	wait := engine.Event{Kind: engine.Waiting, Phase: "w", Text: "the moon"}
	skipped := engine.Event{Kind: engine.Skipped, Phase: "etcd/local", Text: "etcd is external"}
	warned := engine.Event{Kind: engine.Warned, Phase: "w", Text: "look out"}
	checked := engine.Event{Kind: engine.Warned, Check: "Swap", Text: "swap is on"}
	preview := func(e engine.Event) engine.Event { e.Preview = true; return e }
	for _, c := range []struct {
		text     *Text
		event    engine.Event
		out, err string
	}{
		{&Text{}, did, "", ""},
		{&Text{Verbosity: 1}, did, "[certs] done: write file \"/f\"\n", ""},
		{&Text{}, preview(did), "[certs] would write file \"/f\"\n\ttext\n", ""},
		{&Text{}, wait, "[w] waiting for the moon\n", ""},
		{&Text{}, preview(wait), "[w] would wait for the moon\n", ""},
		{&Text{}, skipped, "", ""},
		{&Text{Verbosity: 1}, skipped, "[etcd] phase etcd/local is skipped: etcd is external\n",
			""},
		{&Text{}, warned, "", "[w] warning: look out\n"},
		{&Text{}, checked, "", "\t[WARNING Swap]: swap is on\n"},
		{&Text{}, engine.Event{Kind: engine.Printed, Text: "as it is"}, "as it is", ""},
		{&Text{}, engine.Event{Kind: engine.Undone, Phase: "x", Text: "write file"},
			"[x] undone: write file\n", ""},
	} {
		if out, err := told(c.text, c.event); out != c.out || err != c.err {
			t.Errorf("%s at verbosity %d:\n out %q, want %q\n err %q, want %q", c.event.Kind,
				c.text.Verbosity, out, c.out, err, c.err)
		}
	}
}

func TestErrorHasHints(t *testing.T) {
	var b bytes.Buffer
	inner := problem.During("asking it", errors.New("no answer"), "ask again")
	Error(&b, nil, problem.New(fmt.Errorf("phase x: %w", inner), "look at the log"))
	if want := "error: phase x: asking it: no answer\n  - look at the log\n  - ask again\n"; b.String() != want {
		t.Errorf("told %q, want %q", b.String(), want)
	}
}
