package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/world/memory"
)

// lastResult is the result at the end of the output.
func (s *testMachine) lastResult(t *testing.T) (r report.Result) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(s.out.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil || r.Kind != "RunResult" {
		t.Fatalf("the last line is no result: %v\n%s", err, s.out.String())
	}
	return r
}

func TestInterruptedRunHasResultAndTrace(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	err := s.interruptAt(`"type":"phaseStarted","phase":"kubeconfig"`, "init", "--config", "/init.yaml",
		"--events", "json", "--trace", "/trace.json")
	if err == nil {
		t.Fatal("the run was not interrupted")
	}
	r := s.lastResult(t)
	wasAtWork := slices.ContainsFunc(r.Phases, func(p report.PhaseResult) bool {
		return p.Outcome == report.PhaseFailed && strings.HasPrefix(r.Error.Phase, p.Name)
	})
	if r.Outcome != report.Interrupted || r.ExitCode != 1 || !wasAtWork || r.Error.Cause != "interrupted" ||
		!slices.Contains(r.Error.Hints,
			"everything done so far is kept: re-run the command to resume") {
		t.Errorf("%+v: %+v", r, r.Error)
	}
	if text := string(s.world.Files["/trace.json"].Data); !json.Valid([]byte(text)) ||
		!strings.Contains(text, `"outcome":"interrupted"`) ||
		!strings.Contains(text, `"name":"certs/ca"`) {
		t.Errorf("the trace is %q", text)
	}
}

// What was asked for may be lost with standard output, as on a full disk.
func TestLostOutputIsAnError(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	s.Out = brokenWriter{}
	err := s.run(t.Context(), "init", "--config", "/init.yaml")
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v, want that of writing", err)
	}
	if s.world.Files["/etc/kubernetes/admin.conf"].Data == nil {
		t.Error("the run has not gone on to its end")
	}
}

var errBroken = errors.New("no space left on device")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

// Programs get a result, marked as one of a dry run, of a run that fails before its first phase.
func TestEarlyFailureHasResult(t *testing.T) {
	for _, args := range [][]string{{"--trace", "/no-such-dir/t.json"}, {"--config", "/missing"}} {
		s := newTestMachine(t)
		if err := s.run(t.Context(), append([]string{"init", "--dry-run", "-o", "json"}, args...)...); err == nil {
			t.Fatalf("%q: it succeeded", args)
		}
		var r report.Result
		if err := json.Unmarshal(s.out.Bytes(), &r); err != nil || !r.Preview || r.Outcome != report.Failed {
			t.Errorf("%q: %v, result %+v", args, err, r)
		}
	}
}

// The result says the same as the text: the error, its hints and the exit code.
func TestResultHasHintsOfText(t *testing.T) {
	s := newTestMachine(t)
	s.world.Info.UserID = 1000
	err := s.run(t.Context(), "reset", "--force", "--events", "json")
	r := s.lastResult(t)
	var text bytes.Buffer
	report.Error(&text, nil, err)
	if r.ExitCode != problem.ExitCode(err) || len(r.Error.Hints) == 0 ||
		!strings.HasPrefix(text.String(), "error: "+r.Error.Message+"\n") {
		t.Errorf("%+v\n%s", r.Error, text.String())
	}
	for _, hint := range r.Error.Hints {
		if !strings.Contains(text.String(), "  - "+hint+"\n") {
			t.Errorf("no hint %q in\n%s", hint, text.String())
		}
	}
}

// An existing trace is replaced, also by a run that fails before its first phase.
func TestTraceReplacesFile(t *testing.T) {
	s := newTestMachine(t)
	s.world.Files["/trace.json"] = memory.File{Data: []byte("before"), Mode: 0o600}
	if err := s.run(t.Context(), "init", "--config", "/missing", "--trace", "/trace.json"); err == nil {
		t.Fatal("a missing configuration file was accepted")
	}
	if text := s.world.Files["/trace.json"].Data; !bytes.Contains(text, []byte(`"outcome":"failed"`)) {
		t.Errorf("the trace is %q", text)
	}
}

// runLogs are the log files that commands create, by command.
type runLogs struct {
	err   error // of creating one
	files map[string]*runLogFile
}

type runLogFile struct {
	bytes.Buffer
	name string
}

func (*runLogFile) Close() error   { return nil }
func (f *runLogFile) Name() string { return f.name }

func keepRunLogs(s *testMachine) *runLogs {
	logs := &runLogs{files: map[string]*runLogFile{}}
	s.CreateLog = func(command string, _ time.Time) (report.LogFile, error) {
		if logs.err != nil {
			return nil, logs.err
		}
		logs.files[command] = &runLogFile{name: "/var/log/kubeadm/" + command + ".log"}
		return logs.files[command], nil
	}
	return logs
}

func TestRunLogOfCommands(t *testing.T) {
	s := newTestMachine(t)
	logs := keepRunLogs(s)
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	mustRun := func(args ...string) {
		t.Helper()
		if err := s.run(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range []string{"init --config /init.yaml --dry-run",
		"config print init-defaults", "config validate --config /init.yaml"} {
		mustRun(strings.Fields(command)...)
	}
	if len(logs.files) > 0 {
		t.Fatalf("commands that change nothing have logs: %v", logs.files)
	}
	mustRun("init", "--config", "/init.yaml", "--upload-certs", "--events", "json")
	if r := s.lastResult(t); r.LogFile != "/var/log/kubeadm/init.log" {
		t.Errorf("the result names the log %q", r.LogFile)
	}
	text := logs.files["init"].String()
	if !strings.Contains(text, `[certs] done: write file "/etc/kubernetes/pki/ca.crt"`) ||
		!strings.HasSuffix(text, " finished\n") {
		t.Errorf("the log is\n%s", text)
	}
	for line := range strings.Lines(text) {
		if !regexp.MustCompile(`^2026-09-01T12:[0-9:.]+Z `).MatchString(line) {
			t.Errorf("a line has no time: %q", line)
		}
	}
	for _, form := range []string{`[a-z0-9]{6}\.[a-z0-9]{16}\b`, `\b[0-9a-f]{64}\n`, `PRIVATE KEY`} {
		if found := regexp.MustCompile(form).FindString(text); found != "" {
			t.Errorf("the log has %q", found)
		}
	}
	for _, command := range []string{"token list", "certs check-expiration", "version", "token create"} {
		mustRun(strings.Fields(command)...)
	}
	mustRun("init", "phase", "certs", "ca", "--config", "/init.yaml") // nothing is left to do
	delete(s.world.Files, "/etc/kubernetes/scheduler.conf")
	mustRun("init", "phase", "kubeconfig", "scheduler", "--config", "/init.yaml")
	if len(logs.files) != 2 || logs.files["init phase kubeconfig scheduler"] == nil {
		t.Errorf("there are the logs %v", logs.files)
	}
}

func TestErrorNamesRunLog(t *testing.T) {
	s := newTestMachine(t)
	keepRunLogs(s)
	s.world.PortsInUse[":6443"] = "nc"
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	err := s.run(t.Context(), "init", "--config", "/init.yaml")
	hints := problem.Hints(err)
	if len(hints) == 0 ||
		hints[len(hints)-1] != "the log of this run is /var/log/kubeadm/init.log" {
		t.Errorf("the hints are %q: %v", hints, err)
	}
}

// A machine on which no log can be written is no reason for a run to fail.
func TestRunWithoutLogDirectory(t *testing.T) {
	for verbosity, want := range map[int]int{0: 0, 1: 1} {
		s := newTestMachine(t)
		keepRunLogs(s).err = errors.New("read-only file system")
		s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
		err := s.run(t.Context(), "init", "--config", "/init.yaml", fmt.Sprintf("-v=%d", verbosity))
		said := strings.Count(s.out.String(), "no log file is written: read-only file system")
		if err != nil || said != want {
			t.Errorf("-v %d: said %d times, want %d: %v", verbosity, said, want, err)
		}
	}
}
