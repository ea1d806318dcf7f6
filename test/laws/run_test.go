package laws

import (
	"context"
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/preview"
)

// run is one try at a subject's command on a machine, with what earlier tries left in the journal.
type run struct {
	subject
	machine *fake.World
	store   *journal.Memory

	phases  []flow.Phase   // instead of the subject's
	sel     flow.Selection // all phases, unless it says otherwise
	fault   *fault.World   // what breaks; nil for nothing
	stop    int            // the user interrupts while this change is under way, counted from 1; 0 for never
	preview bool
}

// outcome is how it went.
type outcome struct {
	err     error
	crashed bool
	did     []change.Change // what took effect on the machine, in order
	waits   []string        // what the machine was asked to wait for
	events  []flow.Event
	key     string   // the certificate key, if the command has one
	secrets []string // what the run was given or made up that nobody is to read
}

// newRun is the first run of the subject's command on a machine.
func (s subject) newRun(m *fake.World) run {
	return run{subject: s, machine: m, store: &journal.Memory{}}
}

// rerun is the same command given once more, an hour later. Whatever it makes up comes out different.
func (r run) rerun() run {
	r.machine.Clock = memory.Ticking(r.machine.Now().Add(time.Hour))
	r.fault, r.stop = nil, 0
	return r
}

// errInterrupted is what the user reads who stops a run.
var errInterrupted = errors.New("stopped by the user")

// asPreview is the same command with nothing but a look at what it would do.
func (r run) asPreview(t testing.TB) run {
	t.Helper()
	var err error
	r.preview = true
	r.store, err = journal.Copy(r.store)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// execute runs the command to its end, good or bad.
func (r run) execute(t testing.TB) (out outcome) {
	t.Helper()
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	seen := &recorder{World: r.machine, onBegin: func(nth int) {
		if nth == r.stop {
			interrupt(errInterrupted)
		}
	}}
	j, err := journal.Open(r.wrapWorld(seen), r.store, journal.Run{Command: r.name})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	e := flow.New(flow.Env{
		World: j, Tool: newDefaultTool(t), Once: j.Once, Undoer: j, Withhold: flow.Withhold{Token: true, CertificateKey: true},
		Rand: func(string) io.Reader { return rand.Reader },
		Keys: func() (crypto.Signer, error) { return pki.NewKey(rand.Reader, pki.ECDSAP256) },
		Emit: func(e flow.Event) { mu.Lock(); out.events = append(out.events, e); mu.Unlock() },
	})
	if err := r.setUp(t, e); err != nil {
		t.Fatal(err)
	}
	phases := r.subject.phases
	if r.phases != nil {
		phases = r.phases
	}
	out.err, out.crashed = runCatchingCrash(ctx, e, phases, r.sel)
	if out.err == nil && !out.crashed {
		if err := j.End(); err != nil {
			t.Fatal(err)
		}
	}
	out.did, out.waits, out.key = seen.did, seen.waits, e.Local.CertificateKey
	out.secrets = listRunSecrets(e.Local)
	return out
}

// isFinished tells whether the journal says that the command has come to its end.
func (r run) isFinished(t testing.TB) bool {
	t.Helper()
	j, err := journal.Open(r.machine, r.store, journal.Run{Command: r.name})
	if err != nil {
		t.Fatal(err)
	}
	return j.Finished()
}

func listRunSecrets(l node.Local) []string {
	all := []string{l.CertificateKey}
	for _, t := range l.Tokens {
		all = append(all, t.Secret)
	}
	for _, token := range []string{l.Join.Token, l.Join.TLSToken} {
		_, secret, _ := strings.Cut(token, ".")
		all = append(all, secret)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// mustSucceed runs the command, which must go well.
func (r run) mustSucceed(t testing.TB) outcome {
	t.Helper()
	out := r.execute(t)
	if out.err != nil {
		t.Fatalf("%s: %v", r.name, out.err)
	}
	return out
}

// wrapWorld puts what is to break, or the preview, between the run and the machine.
func (r run) wrapWorld(real world.World) world.World {
	switch {
	case r.preview:
		return preview.New(real, dryRunDir, r.paths())
	case r.fault != nil:
		r.fault.World = real
		return r.fault
	}
	return real
}

// runCatchingCrash tells a crash from an error.
func runCatchingCrash(ctx context.Context, e *flow.Env, phases []flow.Phase, sel flow.Selection) (err error, crashed bool) {
	defer func() {
		if p := recover(); p == (fault.Crash{}) {
			crashed = true
		} else if p != nil {
			panic(p)
		}
	}()
	return flow.Run(ctx, e, phases, sel), false
}

// recorder notes what happens to the machine below it.
type recorder struct {
	world.World
	onBegin func(nth int) // told of each change when it begins

	mu    sync.Mutex
	begun int
	did   []change.Change
	waits []string
}

func (t *recorder) Do(ctx context.Context, c change.Change) error {
	t.mu.Lock()
	t.begun++
	t.onBegin(t.begun)
	t.mu.Unlock()
	err := t.World.Do(ctx, c)
	if err == nil {
		t.mu.Lock()
		t.did = append(t.did, c)
		t.mu.Unlock()
	}
	return err
}

func (t *recorder) Await(ctx context.Context, c world.Condition) error {
	t.mu.Lock()
	t.waits = append(t.waits, c.Name)
	t.mu.Unlock()
	return t.World.Await(ctx, c)
}

// describeChanges names changes by what they do to what, in order.
func describeChanges(cs []change.Change) []string {
	var all []string
	for _, c := range cs {
		all = append(all, withoutTokenNames(fmt.Sprintf("%T %s", c, c.Target())))
	}
	return all
}

func newDefaultTool(t testing.TB) release.Tool {
	t.Helper()
	made, err := release.ParseTool(release.DefaultTool)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
