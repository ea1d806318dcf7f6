package run

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/worldtest/keys"
)

// testHost is a machine on which several commands run, one after the other.
type testHost struct {
	world *fake.World
	store journal.Memory
	out   bytes.Buffer
}

type unlocked struct{ *journal.Memory }

func (unlocked) Close() error { return nil }

func newTestHost() *testHost { return &testHost{world: fake.New()} }

// begin begins a run with a phase "work" that does the changes and then fails with the error.
func (h *testHost) begin(t *testing.T, c Command, n *node.Node, how config.RunOptions) *Run {
	t.Helper()
	c.Journaled = true
	r, err := Open(t.Context(), Host{
		World: h.world, Version: "v1.37.1",
		Journal: func(string) (Journal, error) { return unlocked{&h.store}, nil },
		Random:  func(string) io.Reader { return rand.Reader },
		NewKey:  new(keys.Pool).ForMachine(),
		Getenv:  func(string) (string, bool) { return "", false },
		Report:  &report.Reporter{Text: &report.Text{Out: &h.out, Err: &h.out}},
	}, c)
	if err == nil {
		err = r.Begin(t.Context(), n, how)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// workPhases are a phase that writes a file, if the path is not empty, and returns the error.
func workPhases(phase, path string, failure error) []engine.Phase {
	return []engine.Phase{{Name: phase, Run: func(ctx context.Context, e *engine.Env) error {
		if path != "" {
			if err := e.Do(ctx, change.WriteFile{Path: path, Data: []byte("x"), Mode: 0o600}); err != nil {
				return err
			}
		}
		return failure
	}}}
}

func newNode() *node.Node {
	return &node.Node{Local: node.Local{Name: "cp1", Role: node.ControlPlane, Paths: node.DefaultPaths()}}
}

// A failed run says how to go on, by what it and earlier runs have done to the machine. One that changed
// nothing leaves no trace in the journal.
func TestHintsOfFailedRun(t *testing.T) {
	const resume, other, nothing = "re-run the command to resume", "with other settings left files here",
		"nothing was changed"
	failure := errors.New("no")
	for _, c := range []struct {
		name          string
		before        string // command of an earlier run that failed after a change
		phase, path   string
		isInterrupted bool
		hints         []string
		leavesTrace   bool
	}{
		{name: "nothing was changed", phase: "certs"},
		{name: "interrupted before a change", phase: "certs", isInterrupted: true, hints: []string{nothing}},
		{name: "after a change", phase: "certs", path: "/a", hints: []string{resume}, leavesTrace: true},
		{name: "interrupted after a change", phase: "certs", path: "/a", isInterrupted: true,
			hints: []string{resume}, leavesTrace: true},
		{name: "resumed without a further change", before: "init", phase: "certs", hints: []string{resume},
			leavesTrace: true},
		{name: "resumed and refused by preflight", before: "init", phase: "preflight", leavesTrace: true},
		{name: "beside another unfinished command", before: "join", phase: "certs", hints: []string{other, resume},
			leavesTrace: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, n := newTestHost(), newNode()
			if c.before != "" {
				phases := workPhases("certs", "/earlier", failure)
				r := h.begin(t, Command{Name: c.before, Phases: phases}, n, config.RunOptions{})
				if err := r.Execute(t.Context(), r.NewEnv(engine.Env{Local: n.Local})); err == nil {
					t.Fatal("the earlier run did not fail")
				}
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			phases := workPhases(c.phase, c.path, failure)
			if c.isInterrupted {
				work := phases[0].Run
				phases[0].Run = func(ctx context.Context, e *engine.Env) error {
					defer stop()
					return work(ctx, e)
				}
			}
			r := h.begin(t, Command{Name: "init", Phases: phases}, n, config.RunOptions{})
			err := r.Execute(ctx, r.NewEnv(engine.Env{Local: n.Local}))
			hints := problem.Hints(err)
			ok := errors.Is(err, failure) && len(hints) == len(c.hints)
			for i := range c.hints {
				ok = ok && strings.Contains(hints[i], c.hints[i])
			}
			if !ok {
				t.Errorf("the error is %v, its hints are %q; want %q", err, hints, c.hints)
			}
			log, _ := h.store.Load("journal")
			if len(log) > 0 != c.leavesTrace {
				t.Errorf("the journal holds %q", log)
			}
		})
	}
}

// Only the same command with the same settings counts as finished. Of the phases that it skipped, those
// are named that are selected now and create something.
func TestFinishedRun(t *testing.T) {
	h, n := newTestHost(), newNode()
	phases := slices.Concat(workPhases("certs", "/etc/kubernetes/kubelet.conf", nil),
		workPhases("preflight", "", nil), workPhases("addon", "", nil), workPhases("show-join-command", "", nil))
	command := Command{Name: "init", Phases: phases}
	r := h.begin(t, command, n, config.RunOptions{SkipPhases: []string{"preflight", "addon", "show-join-command"}})
	if r.Finished() {
		t.Error("a first run is a finished one")
	}
	if err := r.Execute(t.Context(), r.NewEnv(engine.Env{Local: n.Local})); err != nil {
		t.Fatal(err)
	}
	again := h.begin(t, command, n, config.RunOptions{})
	if !again.Finished() {
		t.Fatal("the same command does not count as finished")
	}
	recorded, skipped := again.FinishedRun()
	if strings.Join(skipped, " ") != "addon" {
		t.Errorf("skipped are %q", skipped)
	}
	if !recorded("file:/etc/kubernetes/kubelet.conf") || recorded("file:/etc/kubernetes/other.conf") {
		t.Error("what the run created is not known")
	}
	if _, skipped := h.begin(t, command, n, config.RunOptions{SkipPhases: []string{"addon"}}).FinishedRun(); len(skipped) > 0 {
		t.Errorf("skipped again, but named: %q", skipped)
	}
	other := *n
	other.Name = "cp2"
	if h.begin(t, command, &other, config.RunOptions{}).Finished() {
		t.Error("another node counts as finished")
	}
	command.Selection.Only = "certs"
	if h.begin(t, command, n, config.RunOptions{}).Finished() {
		t.Error("a single phase counts as finished")
	}
	// Another program resets the machine, and does not know the journal.
	command.Selection.Only = ""
	delete(h.world.Files, "/etc/kubernetes/kubelet.conf")
	h.world.Files["/etc/kubernetes/pki"] = h.world.Files["/etc/kubernetes"]
	if h.begin(t, command, n, config.RunOptions{}).Finished() {
		t.Error("a machine that was reset counts as finished")
	}
}

// A resumed run shows the token of the interrupted one again, as users may have copied it, but creates
// none that has expired.
func TestKeptTokenAndVersion(t *testing.T) {
	h := newTestHost()
	now := h.world.Now()
	h.world.Clock = func() time.Time { return now }
	n := newNode()
	n.Cluster.Version, n.Cluster.VersionLabel, n.UploadCerts = "v1.37.1", "stable-1", true
	n.Tokens = []node.BootstrapToken{{ID: "aaaaaa", Secret: "0123456789abcdef", Random: true, TTL: time.Hour},
		{ID: "bbbbbb", Secret: "0123456789abcdef", TTL: time.Hour}}
	keep := func(c Command, n *node.Node) *node.Node {
		t.Helper()
		kept, err := h.begin(t, c, n, config.RunOptions{}).KeepValues(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	first := keep(Command{Name: "init"}, n)
	if first.CertificateKey == "" || n.CertificateKey != "" {
		t.Errorf("the certificate key is %q, in the original %q", first.CertificateKey, n.CertificateKey)
	}
	drawn := *n // as the next run draws it
	drawn.Tokens = slices.Clone(n.Tokens)
	drawn.Tokens[0].ID = "cccccc"
	now = now.Add(10 * time.Minute)
	second := keep(Command{Name: "init"}, &drawn)
	for i := range first.Tokens {
		if first.Tokens[i].String() != second.Tokens[i].String() || first.Tokens[i].Expires != second.Tokens[i].Expires {
			t.Errorf("token %d was %+v, and is %+v", i, first.Tokens[i], second.Tokens[i])
		}
	}
	if second.CertificateKey != first.CertificateKey {
		t.Error("the certificate key is another one")
	}
	longer := drawn
	longer.Tokens = []node.BootstrapToken{drawn.Tokens[0]}
	longer.Tokens[0].TTL = 24 * time.Hour
	if third := keep(Command{Name: "init"}, &longer); !third.Tokens[0].Expires.Equal(now.Add(24 * time.Hour).Truncate(time.Second)) {
		t.Errorf("with another TTL the token expires at %s", third.Tokens[0].Expires)
	}
	now = now.Add(2 * time.Hour)
	if late := keep(Command{Name: "init"}, &drawn); !late.Tokens[0].Expires.IsZero() &&
		!late.Tokens[0].Expires.After(now) {
		t.Errorf("the token has expired: %s", late.Tokens[0].Expires)
	}
	single := Command{Name: "init", Selection: engine.Selection{Only: "bootstrap-token"},
		Phases: workPhases("bootstrap-token", "", nil)}
	if alone := keep(single, &drawn); alone.Tokens[0].ID != "cccccc" {
		t.Errorf("a single phase reuses token %s", alone.Tokens[0].ID)
	}
	r := h.begin(t, Command{Name: "init"}, n, config.RunOptions{})
	for label, want := range map[string]string{"stable-1": "v1.37.1", "stable-1.36": "v1.37.2"} {
		if got, err := r.keptVersion(label, "v1.37.2"); err != nil || got != want {
			t.Errorf("%s stands for %s, %v; want %s", label, got, err, want)
		}
	}
	if len(r.notes) != 1 || !strings.Contains(r.notes[0], "stable-1 is now v1.37.2; continuing with v1.37.1") {
		t.Errorf("the notes are %q", r.notes)
	}
}

// A machine counts as reset if a run had created files on it and none of them is left. Certificates do
// not matter. What cannot be read decides nothing.
func TestResetByAnotherProgram(t *testing.T) {
	p := node.DefaultPaths()
	for name, c := range map[string]struct {
		recorded, present []string
		isUnreadable      bool // the directory of all of them
		want, fails       bool
	}{
		"nothing is left":            {recorded: []string{p.KubeletConfig(), p.Manifest("etcd")}, want: true},
		"only certificates are left": {recorded: []string{p.KubeletConfig()}, present: []string{p.Cert("ca")}, want: true},
		"a manifest is left":         {recorded: []string{p.KubeletConfig()}, present: []string{p.Manifest("etcd")}},
		"no run had created any":     {},
		"the directory is gone too":  {recorded: []string{p.KubeletConfig()}, isUnreadable: true, fails: true},
	} {
		w := fake.New()
		if !c.isUnreadable {
			c.present = append(c.present, p.Journal()+"/log")
		}
		for _, file := range c.present {
			if err := w.Do(t.Context(), change.WriteFile{Path: file}); err != nil {
				t.Fatal(err)
			}
		}
		if c.isUnreadable {
			delete(w.Files, p.Kubernetes)
		}
		got, err := isMachineReset(t.Context(), w, p, func(target string) bool {
			return slices.ContainsFunc(c.recorded, func(file string) bool { return change.FileTarget(file) == target })
		})
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// A joining machine learns the algorithm of its keys only by discovery.
func TestKeysOfJoinWaitForDiscovery(t *testing.T) {
	r := newTestHost().begin(t, Command{Name: "join"}, newNode(), config.RunOptions{})
	keys := r.KeysOnceKnown()
	if key, err := keys.Key(pki.First); err == nil {
		t.Errorf("a key before the cluster is known: %T", key)
	}
	n := newNode()
	n.Cluster.Algorithm = pki.ECDSAP384
	keys.SetCluster(t.Context(), n)
	key, err := keys.Key(pki.First)
	if err != nil || fmt.Sprintf("%T", key) != "*ecdsa.PrivateKey" {
		t.Errorf("%T, %v", key, err)
	}
}
