package engine

import (
	"context"
	"crypto"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/kubeletwatch"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Env is all that a phase may use. Each phase gets a copy of its own with the phase's address.
type Env struct {
	World world.World
	Local node.Local
	Tool  release.Tool // the release of this program
	// memoized; join discovers the cluster on first use
	Node func(context.Context) (*node.Node, error)
	// named streams of secret randomness, independent of order
	Rand func(name string) io.Reader
	Emit func(Event)                           // safe for concurrent use
	Keys func(pki.Need) (crypto.Signer, error) // private keys of the cluster's algorithm
	// the cluster admin as whom phases access the API server
	Admin func(context.Context) (state.Identity, error)

	// what the user wants of a command beside a Node, for its phases: see IntentOf
	Intent   any
	Withhold Withhold // secrets that are not printed

	// Once returns the value that an interrupted run of this command generated
	// under that name, or generates and keeps it. Values may be secret.
	Once func(ctx context.Context, name string, make func() (string, error)) (string, error)

	// Undoer undoes the changes of phases that ask for it; nil without a journal.
	Undoer Undoer

	phase     string
	place     []Slot
	selection Selection
	linked    bool // this phase runs beside phases that it may wait for

	// shared by all copies
	locks        *sync.Map     // a *sync.Mutex for each target of a change
	changed      *sync.Map     // targets that this run has changed
	warned       *sync.Map     // texts of warnings of WarnOnce
	notes        *sync.Map     // what phases have noted for others
	steps        *sync.Map     // a func() error for each step, which does it once
	branchGroups *atomic.Int64 // number of groups of branches so far
	progress     *progress
	kubelet      *kubeletwatch.Watch // begins when this run starts the kubelet or writes a manifest
}

// Withhold says which secrets are not printed.
type Withhold struct{ Token, CertificateKey bool }

// Withheld is printed in place of such a secret.
const Withheld = "<value withheld>"

// Undoer undoes changes.
type Undoer interface {
	// Mark begins to collect changes and returns the position to undo to.
	Mark() int
	// Release ends what the last Mark began; changes since then stay, unless an earlier mark is
	// still to be undone.
	Release(mark int)
	// Undo undoes the changes since mark, newest first, and reports each step, with
	// change.ErrIrreversible for what cannot be undone.
	Undo(ctx context.Context, mark int, told func(of change.Change, err error)) error
}

// Resolved is the Node of a command whose intent is known from the start.
func Resolved(n *node.Node) func(context.Context) (*node.Node, error) {
	return func(context.Context) (*node.Node, error) { return n, nil }
}

// Memoized is the Node of a command that has to find it first: find is called until it succeeds
// once.
func Memoized(find func(context.Context) (*node.Node, error)) func(context.Context) (*node.Node, error) {
	var mu sync.Mutex
	var found *node.Node
	return func(ctx context.Context) (n *node.Node, err error) {
		mu.Lock()
		defer mu.Unlock()
		if found == nil {
			found, err = find(ctx)
		}
		return found, err
	}
}

// New completes an Env whose exported fields are set. Run accepts no other.
func New(e Env) *Env {
	e.locks, e.changed, e.warned, e.steps = &sync.Map{}, &sync.Map{}, &sync.Map{}, &sync.Map{}
	e.notes, e.branchGroups = &sync.Map{}, &atomic.Int64{}
	e.progress, e.kubelet = newProgress(), &kubeletwatch.Watch{}
	return &e
}

// Named is the Env of a phase, or of work outside of phases: its events have that name.
func (e *Env) Named(name string) *Env {
	own := *e
	own.phase = name
	return &own
}

// Selection says which phases of the workflow this run runs.
func (e *Env) Selection() Selection { return e.selection }

// Changed reports whether this run has changed that target.
func (e *Env) Changed(target string) bool {
	_, ok := e.changed.Load(target)
	return ok
}

// Note keeps a fact for later phases of this run, and for its closing text.
func (e *Env) Note(fact string) { e.notes.Store(fact, true) }

// IsNoted reports whether a phase of this run has noted the fact.
func (e *Env) IsNoted(fact string) bool {
	_, ok := e.notes.Load(fact)
	return ok
}

// ListNoted returns what follows the prefix in the facts that phases of this run have noted, sorted.
func (e *Env) ListNoted(prefix string) (all []string) {
	e.notes.Range(func(fact, _ any) bool {
		if rest, has := strings.CutPrefix(fact.(string), prefix); has {
			all = append(all, rest)
		}
		return true
	})
	slices.Sort(all)
	return all
}

// IntentOf is the intent of a command, of the type that its phases expect. Other commands have none.
func IntentOf[T any](e *Env) T { return e.Intent.(T) }

// Cluster returns what a phase needs to access the cluster: the intent and the admin.
func (e *Env) Cluster(ctx context.Context) (*node.Node, state.Identity, error) {
	n, err := e.Node(ctx)
	if err != nil {
		return nil, state.Identity{}, err
	}
	as, err := e.Admin(ctx)
	return n, as, err
}

// Object reads an object that decides what is changed. A failure that may pass is retried within
// Timeouts.KubernetesAPI, with one warning if that takes long.
func (e *Env) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	ctx, cancel := e.withRetries(e.withWarning(ctx))
	defer cancel()
	return e.World.Object(ctx, ref)
}

// List reads objects as Object reads one. The limit is not that of a whole list, of which the time grows with the cluster:
// the world adds some for each page. A long list reports now and then how far it is.
func (e *Env) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	ctx = world.WithListing(e.withWarning(ctx), func(text string) { e.Say("%s", text) })
	if limit := e.retryLimit(ctx); limit > 0 {
		ctx = world.WithRetry(ctx, limit)
	}
	return e.World.List(ctx, q)
}

// withWarning is the context of a read that warns when it takes long.
func (e *Env) withWarning(ctx context.Context) context.Context {
	var once sync.Once // the next ones would differ in the port of this machine at most
	return world.WithProgress(ctx, func(text string) { once.Do(func() { e.Warn("%s", text) }) })
}

// Reader reads the world. Objects and lists of the API server are read as by Object and List.
func (e *Env) Reader() state.Reader { return retryingReader{e.World, e} }

type retryingReader struct {
	state.Reader
	e *Env
}

func (r retryingReader) Object(ctx context.Context,
	ref state.Ref) (*unstructured.Unstructured, error) {
	return r.e.Object(ctx, ref)
}

func (r retryingReader) List(ctx context.Context,
	q state.Query) ([]unstructured.Unstructured, error) {
	return r.e.List(ctx, q)
}

// withRetries is the context of a read that is retried. A limit that it has already stays.
func (e *Env) withRetries(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := e.retryLimit(ctx)
	if limit <= 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, limit+world.Patience)
	return world.WithRetry(ctx, limit), cancel
}

// retryLimit is how long a read is retried; 0 if the context has a limit, or if there is none.
func (e *Env) retryLimit(ctx context.Context) time.Duration {
	if world.RetryLimit(ctx) > 0 {
		return 0
	}
	return max(e.Local.Timeouts.KubernetesAPI, 0)
}

// As is the Admin of a command that knows from the start as whom it accesses the cluster.
func As(as state.Identity) func(context.Context) (state.Identity, error) {
	return func(context.Context) (state.Identity, error) { return as, nil }
}

// remindEvery is how often a wait reports why it continues.
const remindEvery = 10 * time.Second

// Await waits for the conditions in order. It reports now and then why it still waits. A wait for a
// result of this run ends if the kubelet of this machine cannot start Pods, and names the cause.
func (e *Env) Await(ctx context.Context, cs ...world.Condition) error {
	for _, c := range cs {
		e.emit(Event{Kind: Waiting, Subject: c.Name, Text: c.Name, Limit: c.Timeout})
		start := e.World.Now()
		check, last, named := c.Check, start, false
		c.Check = func(ctx context.Context, r state.Reader) error {
			err := check(ctx, r)
			if !c.External && e.kubelet.HasBegun() {
				err = e.kubelet.AddCause(ctx, r, e.Local.CRISocket, err)
			}
			isNews := !named && !world.IsPermanent(err) && kubeletwatch.IsFailure(err)
			now := r.Now()
			// before a long pause, which the server asks for, and not only after it
			silence := now.Sub(last) + world.PauseAskedBy(err)
			if err != nil && (silence >= remindEvery || isNews) {
				last, named = now, named || isNews
				e.Say("still waiting for %s: %v", c.Name, err)
			}
			return err
		}
		if err := e.World.Await(ctx, c); err != nil {
			e.emit(Event{Kind: WaitFailed, Start: start, Subject: c.Name, Text: err.Error()})
			return err
		}
		e.emit(Event{Kind: Waited, Start: start, Subject: c.Name, Text: fmt.Sprintf(
			"waited %s for %s", e.World.Now().Sub(start).Round(time.Millisecond), c.Name)})
	}
	return nil
}

// Say reports progress.
func (e *Env) Say(format string, args ...any) { e.event(Info, fmt.Sprintf(format, args...), nil) }

// Result shows a result of the phase, such as a token. Unlike progress it is not redacted, so it
// must not contain text of servers or files.
func (e *Env) Result(format string, args ...any) {
	e.event(Result, fmt.Sprintf(format, args...), nil)
}

// Warn reports something that the user should check.
func (e *Env) Warn(format string, args ...any) {
	e.event(Warned, fmt.Sprintf(format, args...), nil)
}

// WarnOnce is Warn, but once for each text in a run.
func (e *Env) WarnOnce(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if _, again := e.warned.LoadOrStore(text, true); !again {
		e.event(Warned, text, nil)
	}
}

// WarnCheck reports a warning of a preflight check.
func (e *Env) WarnCheck(check, text string) {
	e.emit(Event{Kind: Warned, Check: check, Text: text})
}

// ShowJoin shows how machines join, as fields for programs.
func (e *Env) ShowJoin(c JoinCommands) { e.emit(Event{Kind: Joinable, Join: &c}) }

// Print shows a result that the user asked for, as it is.
func (e *Env) Print(text string) { e.event(Printed, text, nil) }

func (e *Env) event(k Kind, text string, c change.Change) {
	e.emit(Event{Kind: k, Text: text, Change: c})
}

// emit adds time, phase and place to the event.
func (e *Env) emit(ev Event) {
	ev.Time, ev.Phase, ev.Place = e.World.Now(), e.phase, e.place
	e.Emit(ev)
}
