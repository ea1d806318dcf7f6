package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func TestResult(t *testing.T) {
	n := &node.Node{}
	n.Name, n.Cluster.Version = "cp1", "v1.37.1"
	r := NewRecorder("init", noon)
	for _, e := range []engine.Event{
		{Time: at(1), Kind: engine.Intent, Node: n},
		{Time: at(1), Kind: engine.Started, Phase: "certs"},
		{Time: at(1), Kind: engine.Warned, Phase: "certs", Text: "twice"},
		{Time: at(2), Kind: engine.Skipped, Phase: "certs/sa", Text: "skipped by the user"},
		{Time: at(3), Start: at(2), Kind: engine.Failed, Phase: "certs/ca", Text: "no luck"},
		{Time: at(3), Start: at(1), Kind: engine.Failed, Phase: "certs", Text: "no luck"},
		{Time: at(4), Kind: engine.Warned, Phase: "certs", Text: "twice"},
	} {
		r.Emit(e)
	}
	err := problem.New(&engine.PhaseError{Phase: "certs/ca",
		Err: fmt.Errorf("writing k3h9wd.%s: %w", secret, fs.ErrPermission)}, "become root")
	got := r.Result(err, false, at(5))
	want := Result{TypeMeta: got.TypeMeta, Command: "init", Outcome: Failed, ExitCode: 1,
		NodeName: "cp1", KubernetesVersion: "v1.37.1", Start: noon, DurationSeconds: 5,
		Phases: []PhaseResult{
			{"certs", PhaseFailed, "no luck", at(1), 2},
			{"certs/sa", PhaseSkipped, "skipped by the user", at(2), 0},
			{"certs/ca", PhaseFailed, "no luck", at(2), 1},
		},
		Warnings: []Warning{{Phase: "certs", Message: "twice"}},
		Error: &Failure{Phase: "certs/ca",
			Message: "phase certs/ca: writing k3h9wd.[hidden]: permission denied",
			Cause:   "permission denied", Hints: []string{"become root"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	if again := r.Result(nil, true, at(5)); again.Outcome != Succeeded || again.Error != nil {
		t.Errorf("a run that ends without an error after Ctrl-C: %+v", again)
	}
	if again := r.Result(err, true, at(5)); again.Outcome != Interrupted || again.ExitCode != 1 {
		t.Errorf("an interrupted run: %+v", again)
	}
}

func TestRootCauses(t *testing.T) {
	a, b := errors.New("a"), errors.New("b")
	for _, c := range []struct {
		err  error
		want string
	}{
		{a, "a"},
		{fmt.Errorf("x: %w", problem.During("y", a)), "a"},
		{errors.Join(fmt.Errorf("x: %w", a), b, a), "a|b"},
		{fmt.Errorf("x: %w; %w", b, a), "b|a"},
		{fmt.Errorf("x: %w", untrusted.Error(fmt.Errorf("y\n  - run: %w", a))), `y\n  - run: a`},
	} {
		if got := strings.Join(rootCauses(c.err), "|"); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// Each kind of target has a form of its own, and a target that is changed twice is listed once.
func TestChangesOfTargets(t *testing.T) {
	file := func(path string) change.Change { return change.WriteFile{Path: path} }
	secretObject := change.DeleteObject{Ref: state.Ref{
		GVK: corev1.SchemeGroupVersion.WithKind("Secret"), Namespace: "kube-system", Name: "s"}}
	pair := change.WriteKeyPair{Key: change.WriteFile{Path: "/k"}, Cert: change.WriteFile{Path: "/c"}}
	var all Changes
	for _, e := range []engine.Event{
		{Kind: engine.Did, Change: file("/a"), Effect: change.Created},
		{Kind: engine.Did, Change: file("/a"), Effect: change.Changed},
		{Kind: engine.Did, Change: file("/b"), Effect: change.Removed},
		{Kind: engine.Did, Change: file("/b"), Effect: change.Created},
		{Kind: engine.Did, Change: file("/d"), Effect: change.Changed},
		{Kind: engine.Unchanged, Change: file("/d")},
		{Kind: engine.Did, Change: file("/e"), Effect: change.Created},
		{Kind: engine.Undone, Change: file("/e")},
		{Kind: engine.ChangeFailed, Change: file("/f")},
		{Kind: engine.ChangeFailed, Change: file("/g")},
		{Kind: engine.Unchanged, Change: file("/g")},
		{Kind: engine.Did, Change: file("/h"), Effect: change.Created},
		{Kind: engine.Did, Change: file("/h"), Effect: change.Removed},
		{Kind: engine.Did, Change: pair, Effect: change.Created},
		{Kind: engine.Unchanged, Change: secretObject},
		{Kind: engine.Did, Change: change.SetService{Name: "kubelet"}, Effect: change.Changed},
		{Kind: engine.Did, Change: change.PullImage{Ref: "r.example/a:1"}, Effect: change.Created},
		{Kind: engine.Progress, Change: file("/g"), Text: "half"},
	} {
		all.add(changesOf(e))
	}
	want := Changes{
		Files: []FileChange{{"/a", change.Created}, {"/b", change.Changed}, {"/d", change.Changed},
			{"/e", change.Reverted}, {"/f", change.NotMade}, {"/g", change.LeftUnchanged}, {"/k", change.Created},
			{"/c", change.Created}},
		Objects: []ObjectChange{{"", "Secret", "kube-system", "s", change.LeftUnchanged}},
		OtherChanges: []OtherChange{{"service", "kubelet", change.Changed},
			{"image", "r.example/a:1", change.Created}},
	}
	if !reflect.DeepEqual(all, want) {
		t.Errorf("%+v\nwant\n%+v", all, want)
	}
}

func TestStream(t *testing.T) {
	var to bytes.Buffer
	s := &Stream{To: &to}
	s.Emit(engine.Event{Time: at(0), Kind: engine.Joined})
	s.Emit(engine.Event{Time: at(0), Kind: engine.Info, Phase: "p",
		Text: "k3h9wd." + secret + "\x1b[2J"})
	s.Emit(engine.Event{Time: at(3), Start: at(1), Kind: engine.Waited, Subject: "x", Preview: true})
	s.Emit(engine.Event{Time: at(4), Kind: engine.Joinable, Join: &engine.JoinCommands{
		Worker: "kubeadm join a:1 --token " + engine.Withheld + " \\\n\t--x ", Token: engine.Withheld,
		Expires: at(9)}})
	const head = `{"kind":"RunEvent","apiVersion":"run.kubeadm.k8s.io/v1beta1","time":"2026-09-01T12:00:0`
	want := head + `0Z","type":"message","phase":"p","message":"k3h9wd.[hidden]\\x1b[2J"}` + "\n" +
		head + `3Z","type":"waitFinished","dryRun":true,"subject":"x","start":"2026-09-01T12:00:01Z","durationSeconds":2}` + "\n" +
		head + `4Z","type":"joinCommands","joinCommand":{"worker":"kubeadm join a:1 --token <value withheld> --x","endpoint":"","token":"<value withheld>","tokenExpires":"2026-09-01T12:00:09Z","caCertHashes":null}}` + "\n"
	if to.String() != want {
		t.Errorf("%s\nwant\n%s", to.String(), want)
	}
}

// closedPipe refuses every write.
type closedPipe struct{ writes int }

func (c *closedPipe) Write([]byte) (int, error) { c.writes++; return 0, fs.ErrClosed }

func TestClosedStreamEndsNoRun(t *testing.T) {
	var to closedPipe
	s := &Stream{To: &to}
	s.Emit(said("1"))
	s.Emit(said("2"))
	if err := s.End(Result{}); !errors.Is(err, fs.ErrClosed) || to.writes != 1 {
		t.Errorf("%d writes: %v", to.writes, err)
	}
}

// Branches that overlap are on different threads of the timeline, others share one.
func TestTraceThreads(t *testing.T) {
	place := func(group, index int) []engine.Slot {
		return []engine.Slot{{Group: group, Index: index, Of: 2}}
	}
	tr := &Trace{Command: "init", Start: noon}
	for _, e := range []engine.Event{
		{Kind: engine.Finished, Phase: "a", Start: at(0), Time: at(1)},
		{Kind: engine.Finished, Phase: "b", Start: at(1), Time: at(3), Place: place(1, 0)},
		{Kind: engine.Finished, Phase: "c", Start: at(1), Time: at(2), Place: place(1, 1)},
		{Kind: engine.Finished, Phase: "d", Start: at(4), Time: at(5), Place: place(2, 1)},
		{Kind: engine.WaitFailed, Subject: "the API server", Start: at(6), Time: at(7),
			Text: "k3h9wd." + secret},
		{Kind: engine.Started, Phase: "e", Time: at(7)},
		{Kind: engine.Warned, Phase: "e", Time: at(7), Text: "slow"},
	} {
		tr.Emit(e)
	}
	data, err := tr.Encode(Failed, at(8))
	if err != nil {
		t.Fatal(err)
	}
	var f traceFile
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range f.TraceEvents {
		got = append(got, fmt.Sprintf("%s %s %d %.0f+%.0f", e.Phase, e.Name, e.Thread, e.Time/1e6,
			e.Duration/1e6))
	}
	want := []string{"M process_name 1 0+0", "X kubeadm init 1 0+8", "X a 1 0+1", "X b 2 1+2",
		"X c 3 1+1", "X d 2 4+1", "X wait for the API server 1 6+1", "i warning 1 7+0"}
	if !reflect.DeepEqual(got, want) || bytes.Contains(data, []byte(secret)) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}
