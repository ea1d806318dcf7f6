package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/problem"
)

var noon = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// memoryLog is a log file in memory.
type memoryLog struct {
	bytes.Buffer
	closed bool
	broken error // of each write
}

func (l *memoryLog) Write(text []byte) (int, error) {
	if l.broken != nil {
		return 0, l.broken
	}
	return l.Buffer.Write(text)
}

func (l *memoryLog) Close() error { l.closed = true; return nil }

func (l *memoryLog) Name() string { return "/var/log/kubeadm/init.log" }

// newRunLog returns an enabled log, its file, and what it reports as failed.
func newRunLog() (*RunLog, *memoryLog, *[]error) {
	var file memoryLog
	var failures []error
	l := &RunLog{Create: func() (LogFile, error) { return &file, nil },
		Failed: func(err error) { failures = append(failures, err) }}
	l.Enable()
	return l, &file, &failures
}

func TestRunLog(t *testing.T) {
	l, file, failures := newRunLog()
	written := change.WriteFile{Path: "/etc/kubernetes/admin.conf"}
	for _, e := range []engine.Event{
		{Kind: engine.Warned, Phase: "config", Text: "unknown field"},
		{Kind: engine.Started, Phase: "certs"},
		{Kind: engine.Changing, Phase: "certs", Change: written, Text: written.String()},
		{Kind: engine.Did, Phase: "certs", Change: written, Text: written.String()},
		{Kind: engine.Result, Phase: "upload-certs", Text: "Using certificate key:\n" + key},
		{Kind: engine.Printed, Text: "\nkubeadm join --token k3h9wd." + secret + " \\\n\t--x\n"},
	} {
		e.Time = noon
		l.Emit(e)
	}
	if file.Len() == 0 {
		t.Error("nothing is written before the end")
	}
	path := l.End(func() time.Time { return noon.Add(time.Second) },
		problem.New(errors.New("token k3h9wd."+secret+" expired"), "create another"))
	const at = "2026-09-01T12:00:00.000Z "
	want := at + "[config] warning: unknown field\n" +
		at + "[certs] done: write file \"/etc/kubernetes/admin.conf\"\n" +
		at + "[upload-certs] Using certificate key:\n" +
		at + "[64 hex digits hidden]\n" +
		at + "kubeadm join --token k3h9wd.[hidden] \\\n" +
		at + "\t--x\n" +
		"2026-09-01T12:00:01.000Z error: token k3h9wd.[hidden] expired\n" +
		"2026-09-01T12:00:01.000Z   - create another\n"
	if file.String() != want || !file.closed || path != file.Name() || len(*failures) > 0 {
		t.Errorf("%s: %v\n%s\nwant\n%s", path, *failures, file.String(), want)
	}
}

// A run that changes nothing on the machine leaves no file.
func TestRunsWithoutLog(t *testing.T) {
	for name, c := range map[string]struct {
		disabled bool
		events   []engine.Event
	}{
		"a dry run": {false, []engine.Event{{Kind: engine.Started, Preview: true}}},
		"a failure before the first phase": {false,
			[]engine.Event{{Kind: engine.Warned, Text: "x"}}},
		"a command that only reads":  {true, []engine.Event{{Kind: engine.Changing}}},
		"a run that is done already": {false, []engine.Event{{Kind: engine.Started}, {Kind: engine.Finished}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &RunLog{Create: func() (LogFile, error) {
				t.Error("the file is created")
				return nil, errors.New("unexpected")
			}, Failed: func(error) {}}
			if !c.disabled {
				l.Enable()
			}
			for _, e := range c.events {
				l.Emit(e)
			}
			if path := l.End(time.Now, nil); path != "" {
				t.Errorf("the log is %s", path)
			}
		})
	}
}

// A run whose first phase fails has changed nothing, and its log says why.
func TestRunLogOfFailureBeforeFirstChange(t *testing.T) {
	l, file, _ := newRunLog()
	l.Emit(engine.Event{Time: noon, Kind: engine.Started, Phase: "preflight"})
	l.Emit(engine.Event{Time: noon, Kind: engine.Warned, Phase: "preflight", Text: "swap is on"})
	path := l.End(func() time.Time { return noon }, errors.New("not root"))
	if want := "warning: swap is on"; path != file.Name() || !strings.Contains(file.String(), want) ||
		!strings.Contains(file.String(), "error: not root") || !file.closed {
		t.Errorf("%s:\n%s\nwant %q and the error in it", path, file.String(), want)
	}
}

func TestRunLogFailureIsToldOnce(t *testing.T) {
	full := errors.New("no space left on device")
	for _, failing := range []string{"create", "write"} {
		l, file, failures := newRunLog()
		file.broken = full
		if failing == "create" {
			l.Create = func() (LogFile, error) { return nil, full }
		}
		for range 3 {
			l.Emit(engine.Event{Kind: engine.Changing, Phase: "certs"})
			l.Emit(said("text"))
		}
		if path := l.End(time.Now, nil); len(*failures) != 1 || path != "" {
			t.Errorf("%s: path %q, failures %v", failing, path, *failures)
		}
	}
}

func TestRunLogIsBounded(t *testing.T) {
	l, file, _ := newRunLog()
	l.Emit(engine.Event{Kind: engine.Started, Phase: "certs"})
	for range 3 {
		l.Emit(said(strings.Repeat("x", runLogLimit/2)))
	}
	l.End(time.Now, errors.New("at the end"))
	text := file.String()
	if len(text) > runLogLimit+1000 || strings.Count(text, "left out") != 1 ||
		!strings.Contains(text, "error: at the end") {
		t.Errorf("%d bytes; the end is %q", len(text), text[len(text)-200:])
	}
}
