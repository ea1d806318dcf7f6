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

// on is the first run of the subject's command on a machine.
func (s subject) on(m *fake.World) run { return run{subject: s, machine: m, store: &journal.Memory{}} }

// again is the same command given once more, an hour later. Whatever it makes up comes out different.
func (r run) again() run {
	r.machine.Clock = memory.Ticking(r.machine.Now().Add(time.Hour))
	r.fault, r.stop = nil, 0
	return r
}

// errInterrupted is what the user reads who stops a run.
var errInterrupted = errors.New("stopped by the user")

// previewed is the same command with nothing but a look at what it would do.
func (r run) previewed(t testing.TB) run {
	t.Helper()
	var err error
	r.preview = true
	r.store, err = journal.Copy(r.store)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// do runs the command to its end, good or bad.
func (r run) do(t testing.TB) (out outcome) {
	t.Helper()
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	seen := &trace{World: r.machine, begins: func(nth int) {
		if nth == r.stop {
			interrupt(errInterrupted)
		}
	}}
	j, err := journal.Open(r.around(seen), r.store, journal.Run{Command: r.name})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	e := flow.New(flow.Env{
		World: j, Tool: tool(t), Once: j.Once, Undoer: j, Withhold: flow.Withhold{Token: true, CertificateKey: true},
		Rand: func(string) io.Reader { return rand.Reader },
		Keys: func() (crypto.Signer, error) { return pki.NewKey(rand.Reader, pki.ECDSAP256) },
		Emit: func(e flow.Event) { mu.Lock(); out.events = append(out.events, e); mu.Unlock() },
	})
	if err := r.equip(t, e); err != nil {
		t.Fatal(err)
	}
	phases := r.subject.phases
	if r.phases != nil {
		phases = r.phases
	}
	out.err, out.crashed = attempt(ctx, e, phases, r.sel)
	if out.err == nil && !out.crashed {
		if err := j.End(); err != nil {
			t.Fatal(err)
		}
	}
	out.did, out.waits, out.key = seen.did, seen.waits, e.Local.CertificateKey
	out.secrets = secretsOf(e.Local)
	return out
}

// finished tells whether the journal says that the command has come to its end.
func (r run) finished(t testing.TB) bool {
	t.Helper()
	j, err := journal.Open(r.machine, r.store, journal.Run{Command: r.name})
	if err != nil {
		t.Fatal(err)
	}
	return j.Finished()
}

func secretsOf(l node.Local) []string {
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

// succeed runs the command, which must go well.
func (r run) succeed(t testing.TB) outcome {
	t.Helper()
	out := r.do(t)
	if out.err != nil {
		t.Fatalf("%s: %v", r.name, out.err)
	}
	return out
}

// around puts what is to break, or the preview, between the run and the machine.
func (r run) around(real world.World) world.World {
	switch {
	case r.preview:
		return preview.New(real, dryRunDir, r.paths())
	case r.fault != nil:
		r.fault.World = real
		return r.fault
	}
	return real
}

// attempt tells a crash from an error.
func attempt(ctx context.Context, e *flow.Env, phases []flow.Phase, sel flow.Selection) (err error, crashed bool) {
	defer func() {
		if p := recover(); p == (fault.Crash{}) {
			crashed = true
		} else if p != nil {
			panic(p)
		}
	}()
	return flow.Run(ctx, e, phases, sel), false
}

// trace notes what happens to the machine below it.
type trace struct {
	world.World
	begins func(nth int) // told of each change when it begins

	mu    sync.Mutex
	begun int
	did   []change.Change
	waits []string
}

func (t *trace) Do(ctx context.Context, c change.Change) error {
	t.mu.Lock()
	t.begun++
	t.begins(t.begun)
	t.mu.Unlock()
	err := t.World.Do(ctx, c)
	if err == nil {
		t.mu.Lock()
		t.did = append(t.did, c)
		t.mu.Unlock()
	}
	return err
}

func (t *trace) Await(ctx context.Context, c world.Condition) error {
	t.mu.Lock()
	t.waits = append(t.waits, c.Name)
	t.mu.Unlock()
	return t.World.Await(ctx, c)
}

// of names changes by what they do to what, in order.
func of(cs []change.Change) []string {
	var all []string
	for _, c := range cs {
		all = append(all, nameless(fmt.Sprintf("%T %s", c, c.Target())))
	}
	return all
}

func tool(t testing.TB) release.Tool {
	t.Helper()
	made, err := release.ParseTool(release.DefaultTool)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
