package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Run runs the selected phases of a workflow in order. A failing phase ends it; the error names
// the phase.
func Run(ctx context.Context, e *Env, phases []Phase, sel Selection) error {
	if err := Check(phases, sel); err != nil {
		return err
	}
	for _, name := range sel.Skip {
		if group, ok := strings.CutSuffix(name, all); ok && !sel.isSkipped(group) {
			e.WarnOnce("skipping %q has no effect: skip %q to skip the phase and all of its children",
				name, group)
		}
	}
	own := *e
	e, own.progress, own.selection = &own, newProgress(), sel
	Walk(phases, func(address string, p Phase) {
		if sel.includes(address, p) {
			e.progress.selected = append(e.progress.selected, address)
		}
	})
	e.progress.points = listPoints(phases)
	r := &runner{sel: sel}
	return r.runChildren(ctx, e, "", Phase{Phases: phases})
}

// Check reports before anything runs whether the selection names phases that exist and
// skips no phase that another one needs.
func Check(phases []Phase, sel Selection) error {
	var existing, public, before []string
	var errs []error
	Walk(phases, func(address string, p Phase) {
		existing = append(existing, address)
		if !p.Hidden {
			public = append(public, address)
		}
		if !sel.Runs(address) {
			return
		}
		for _, need := range p.Needs {
			if !slices.Contains(before, need) {
				errs = append(errs, fmt.Errorf(
					"phase %q needs phase %q, which is not part of this run: run both or skip both",
					address, need))
			}
		}
		before = append(before, address)
	})
	for _, name := range append(slices.Clone(sel.Skip), sel.Only) {
		if name != "" && !slices.Contains(existing, strings.TrimSuffix(name, all)) {
			errs = append(errs, fmt.Errorf("unknown phase %q; the phases are: %s", name,
				strings.Join(public, ", ")))
		}
	}
	return errors.Join(errs...)
}

type runner struct{ sel Selection }

// runChildren runs the phases below p, whose addresses begin with prefix.
func (r *runner) runChildren(ctx context.Context, e *Env, prefix string, p Phase) error {
	if p.Parallel && isLinked(p) {
		return r.runLinked(ctx, e, prefix, p.Phases)
	}
	if p.Parallel {
		return cmp.Or(e.runBranches(len(p.Phases), func(i int, branch *Env) error {
			return r.runPhase(ctx, branch, prefix, p.Phases[i])
		})...)
	}
	for _, child := range p.Phases {
		if err := r.runPhase(ctx, e, prefix, child); err != nil {
			return err
		}
	}
	return nil
}

// runPhase runs a phase and, if it asks for that, undoes its changes when it fails.
func (r *runner) runPhase(ctx context.Context, e *Env, prefix string, p Phase) error {
	if p.Name == "" {
		return r.runNameless(ctx, e, prefix, p)
	}
	address := prefix + p.Name
	e = e.Named(address)
	if !r.sel.isSelected(address) && !isAtOrBelow(r.sel.Only, address) {
		return nil
	}
	if r.sel.isSkipped(address) {
		e.event(Skipped, "skipped by the user", nil)
		return nil
	}
	if len(p.OnlyWith) > 0 && !r.sel.includes(address, p) {
		return nil
	}
	if err := e.AwaitMilestones(ctx, p.After...); err != nil {
		return &PhaseError{address, err}
	}
	start := e.World.Now()
	why, err := r.skipReason(ctx, e, p)
	if err == nil && why != "" {
		e.event(Skipped, why, nil)
		err = e.end(ctx)
	}
	if err != nil {
		e.emit(Event{Kind: Failed, Start: start, Text: err.Error()})
		return &PhaseError{address, err}
	}
	if why != "" {
		return nil
	}
	e.event(Started, "", nil)
	undoable, mark := p.OnError == Undo && e.Undoer != nil, 0
	if undoable {
		mark = e.Undoer.Mark()
		defer e.Undoer.Release(mark)
	}
	if err = r.runBody(ctx, e, address+"/", p); err == nil {
		if err = e.end(ctx); err != nil {
			err = &PhaseError{address, nameInterrupt(ctx, err)}
		}
	}
	if err == nil {
		e.emit(Event{Kind: Finished, Start: start})
		return nil
	}
	e.emit(Event{Kind: Failed, Start: start, Text: err.Error()})
	if undoable {
		return errors.Join(err, e.undoChanges(ctx, mark))
	}
	return err
}

// undoChanges undoes the changes since mark and reports each, even if the run is interrupted. All
// requests to the API server and etcd together get the time limit of one request.
func (e *Env) undoChanges(ctx context.Context, mark int) error {
	ctx = context.WithoutCancel(ctx)
	if limit := e.Local.Timeouts.KubernetesAPI; limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	return e.Undoer.Undo(ctx, mark, func(of change.Change, err error) {
		if err != nil {
			e.event(Warned, fmt.Sprintf("not undone: %s: %v", of, err), of)
			return
		}
		e.event(Undone, of.String(), of)
	})
}

// runNameless runs a phase that is part of its parent.
func (r *runner) runNameless(ctx context.Context, e *Env, prefix string, p Phase) error {
	around := strings.TrimSuffix(prefix, "/")
	if err := e.AwaitMilestones(ctx, p.After...); err != nil {
		return &PhaseError{around, err}
	}
	if p.Run == nil || !r.sel.Runs(around) {
		return r.runChildren(ctx, e, prefix, p)
	}
	why, err := r.skipReason(ctx, e, p)
	if err != nil {
		return &PhaseError{around, err}
	}
	if why != "" {
		return nil
	}
	return r.runBody(ctx, e, prefix, p)
}

// skipReason returns why the condition of the phase does not hold; empty if it does.
func (r *runner) skipReason(ctx context.Context, e *Env, p Phase) (why string, err error) {
	if p.When == nil {
		return "", nil
	}
	n, err := e.Node(ctx)
	if err != nil {
		return "", err
	}
	ok, why := p.When(n)
	if ok {
		return "", nil
	}
	return why, nil
}

// runBody does the steps and the work of the phase, and runs its children, whose addresses begin
// with prefix.
func (r *runner) runBody(ctx context.Context, e *Env, prefix string, p Phase) error {
	address := strings.TrimSuffix(prefix, "/")
	err := e.doSteps(ctx, p.Before)
	if err == nil && p.Run != nil && r.sel.isSelected(address) {
		err = p.Run(ctx, e)
	}
	if err != nil {
		return &PhaseError{address, nameInterrupt(ctx, err)}
	}
	return r.runChildren(ctx, e, prefix, p)
}

// nameInterrupt returns the error of a phase with the cause that ended its run. Libraries tell of an
// interrupt in words of their own, such as "use of closed network connection".
func nameInterrupt(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// doSteps does those that this run has not done yet.
func (e *Env) doSteps(ctx context.Context, steps []Step) error {
	for _, s := range steps {
		if s.When != nil {
			n, err := e.Node(ctx)
			if err != nil {
				return err
			}
			if !s.When(n) {
				continue
			}
		}
		once, _ := e.steps.LoadOrStore(s.Name,
			sync.OnceValue(func() error { return s.Run(ctx, e.Named(s.Name)) }))
		if err := once.(func() error)(); err != nil {
			return err
		}
	}
	return nil
}

// Do makes the changes in order, skips those that are already made, and stops at the first that
// fails.
func (e *Env) Do(ctx context.Context, cs ...change.Change) error {
	for _, c := range cs {
		if err := e.do(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// do makes one change, if it is needed, and reports what came of it.
func (e *Env) do(ctx context.Context, c change.Change) error {
	lock, _ := e.locks.LoadOrStore(c.Target(), &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("did not %s: %w", c, err)
	}
	start := e.World.Now()
	effect, err := e.carryOut(ctx, c)
	e.watchKubelet(c, start, effect)
	switch {
	case err != nil:
		e.emit(Event{Kind: ChangeFailed, Start: start, Text: err.Error(), Change: c})
	case effect == change.LeftUnchanged:
		e.emit(Event{Kind: Unchanged, Start: start, Text: c.String(), Change: c})
	default:
		e.changed.Store(c.Target(), true)
		e.emit(Event{Kind: Did, Start: start, Text: c.String(), Change: c, Effect: effect})
	}
	return err
}

// watchKubelet lets waits watch the kubelet from a change on that starts it or that gives it a Pod.
// Before that a kubelet may be exiting because it lacks what this run will write.
func (e *Env) watchKubelet(c change.Change, at time.Time, effect change.Effect) {
	starts, restarts := false, false
	switch c := c.(type) {
	case change.SetService:
		starts = c.Name == "kubelet" && c.Active
		restarts = starts && effect != change.LeftUnchanged
	case change.WriteFile:
		starts = path.Dir(c.Path) == e.Local.Paths.Manifests()
	}
	if restarts || starts && !e.kubelet.HasBegun() {
		e.kubelet.Begin(at)
	}
}

// carryOut makes a change unless it is made already, and returns what it did.
func (e *Env) carryOut(ctx context.Context, c change.Change) (change.Effect, error) {
	ctx = world.WithProgress(ctx,
		func(text string) { e.event(Progress, fmt.Sprintf("%s: %s", c, text), c) })
	kind, _, _ := strings.Cut(c.Target(), ":")
	readCtx := ctx
	if kind == "object" {
		var cancel context.CancelFunc
		readCtx, cancel = e.withRetries(ctx)
		defer cancel()
	}
	before := &change.Lookup{Reader: e.World}
	done, err := c.Done(readCtx, before)
	if err != nil {
		return "", fmt.Errorf("checking whether to %s: %w", c, err)
	}
	if done {
		return change.LeftUnchanged, nil
	}
	e.event(Changing, c.String(), c)
	// A change is completed even when the user interrupts, unless it can be canceled. Requests to
	// the API server and etcd are bound by the user's timeouts.
	if _, ok := c.(change.Cancelable); !ok {
		ctx = context.WithoutCancel(ctx)
	}
	limit := map[string]time.Duration{"object": e.Local.Timeouts.KubernetesAPI,
		"member": e.Local.Timeouts.EtcdAPI}[kind]
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if err := e.World.Do(ctx, c); err != nil {
		return "", fmt.Errorf("could not %s: %w", c, err)
	}
	return change.EffectOf(c, !before.Missed()), nil
}

// DoAll makes independent changes concurrently, and returns the errors of all that fail.
func (e *Env) DoAll(ctx context.Context, cs ...change.Change) error {
	return errors.Join(e.runBranches(len(cs),
		func(i int, branch *Env) error { return branch.do(ctx, cs[i]) })...)
}

// runBranches runs n functions concurrently, each with an Env that marks its events as its own,
// and returns their errors. A panic continues in the goroutine of the caller.
func (e *Env) runBranches(n int, run func(i int, branch *Env) error) []error {
	group := int(e.branchGroups.Add(1))
	errs, panics := make([]error, n), make([]any, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			branch := *e
			branch.place = append(slices.Clone(e.place), Slot{Group: group, Index: i, Of: n})
			defer branch.event(Joined, "", nil)
			errs[i] = run(i, &branch)
		})
	}
	wg.Wait()
	for _, p := range panics {
		if p != nil {
			panic(p)
		}
	}
	return errs
}
