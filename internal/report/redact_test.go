package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
)

const (
	secret = "x4tq8zr2m6wn1p0v"
	key    = "3f9a0c27e51b84d6f0a1c2e3b4d5968778695a4b3c2d1e0f1a2b3c4d5e6f7081"
)

func TestErrorsCannotForgeHints(t *testing.T) {
	var b bytes.Buffer
	remote := errors.New(
		"denied\n  - install the new CA first\n\terror: \x1b[2Jgone\r\n[init] done\n")
	Error(&b, nil, problem.During("asking it", remote, "ask\n  - nothing"))
	want := "error: asking it: denied\n\t  - install the new CA first\n\terror: \\x1b[2Jgone\\r\n\t[init] done\n  - ask\n      - nothing\n"
	if b.String() != want {
		t.Errorf("told\n%s\nwant\n%s", b.String(), want)
	}
}

func TestEventsCannotForgeLines(t *testing.T) {
	text := "token k3h9wd." + secret + "\n[init] \x1b[1mdone\x9b"
	for _, c := range []struct {
		event    engine.Event
		out, err string
	}{
		{engine.Event{Kind: engine.Warned, Phase: "w", Text: text}, "",
			"[w] warning: token k3h9wd.[hidden]\n\t[init] \\x1b[1mdone\\u009b\n"},
		{engine.Event{Kind: engine.Warned, Check: "C", Text: text}, "",
			"\t[WARNING C]: token k3h9wd.[hidden]\n\t\t[init] \\x1b[1mdone\\u009b\n"},
		{engine.Event{Kind: engine.Progress, Phase: "w", Text: text}, "",
			"[w] token k3h9wd.[hidden]\n\t[init] \\x1b[1mdone\\u009b\n"},
		{engine.Event{Kind: engine.Waiting, Phase: "w", Text: text},
			"[w] waiting for token k3h9wd.[hidden]\n\t[init] \\x1b[1mdone\\u009b\n", ""},
		{engine.Event{Kind: engine.Info, Phase: "w", Text: text},
			"[w] token k3h9wd.[hidden]\n\t[init] \\x1b[1mdone\\u009b\n", ""},
		{engine.Event{Kind: engine.Info, Phase: "w", Text: "not yet: " + key},
			"[w] not yet: [64 hex digits hidden]\n", ""},
		{engine.Event{Kind: engine.Result, Phase: "w", Text: "key:\n" + key + "\x1b"},
			"[w] key:\n" + key + "\\x1b\n", ""},
		{engine.Event{Kind: engine.Printed, Phase: "w", Text: text},
			"token k3h9wd." + secret + "\n[init] \\x1b[1mdone\\u009b", ""},
	} {
		c.event.Text = strings.ReplaceAll(c.event.Text, "\x9b", "\u009b")
		c.out = strings.ReplaceAll(c.out, "\x9b", "\u009b")
		if out, err := told(&Text{}, c.event); out != c.out || err != c.err {
			t.Errorf("%s:\n out %q, want %q\n err %q, want %q", c.event.Kind, out, c.out, err,
				c.err)
		}
	}
}
