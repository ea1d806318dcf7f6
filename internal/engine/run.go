package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"kubeadm/internal/change"
)

// Run runs the selected phases of a workflow in order. A failing phase ends it; the error names
// the phase.
func Run(ctx context.Context, e *Env, phases []Phase, sel Selection) error {
	if err := Check(phases, sel); err != nil {
		return err
	}
	for _, group := range sel.skipsWithoutEffect() {
		e.Warn("skipping %q has no effect: skip %q to skip the phase and all of its children",
			group+all, group)
	}
	Walk(phases, func(address string, _ Phase) {
		if sel.Runs(address) {
			e.deferred.runs = append(e.deferred.runs, address)
		}
	})
	r := &runner{sel: sel}
	return r.runAll(ctx, e, "", phases)
}

// Check reports before anything runs whether the selection names phases that exist and
// skips no phase that another one needs.
func Check(phases []Phase, sel Selection) error {
	var existing, before []string
	var errs []error
	Walk(phases, func(address string, p Phase) {
		existing = append(existing, address)
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
				strings.Join(existing, ", ")))
		}
	}
	return errors.Join(errs...)
}

type runner struct{ sel Selection }

func (r *runner) runAll(ctx context.Context, e *Env, prefix string, ps []Phase) error {
	for _, p := range ps {
		if err := r.runPhase(ctx, e, prefix, p); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) runChildren(ctx context.Context, e *Env, prefix string, p Phase) error {
	if !p.Parallel {
		return r.runAll(ctx, e, prefix, p.Phases)
	}
	return cmp.Or(e.runBranches(len(p.Phases), func(i int, branch *Env) error {
		return r.runPhase(ctx, branch, prefix, p.Phases[i])
	})...)
}

func (r *runner) runPhase(ctx context.Context, e *Env, prefix string, p Phase) error {
	if p.Name == "" {
		return r.runNameless(ctx, e, prefix, p)
	}
	address := prefix + p.Name
	e = e.withPhase(address)
	if !r.sel.isSelectedOrAbove(address) {
		return nil
	}
	if r.sel.isSkipped(address) {
		e.event(Skipped, "skipped by the user", nil)
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("phase %s: %w", address, err)
	}
	if why, err := r.skipReason(ctx, e, p); err != nil || why != "" {
		if err == nil {
			e.event(Skipped, why, nil)
			err = e.RunDeferred(ctx)
		}
		return wrapPhaseError(address, err)
	}
	e.event(Started, "", nil)
	if err := r.runUndoable(ctx, e, p, address); err != nil {
		return err
	}
	e.event(Finished, "", nil)
	return nil
}

// runNameless runs a phase that is part of its parent.
func (r *runner) runNameless(ctx context.Context, e *Env, prefix string, p Phase) error {
	around := strings.TrimSuffix(prefix, "/")
	if p.Run == nil || !r.sel.Runs(around) {
		return r.runChildren(ctx, e, prefix, p)
	}
	why, err := r.skipReason(ctx, e, p)
	if err != nil {
		return fmt.Errorf("phase %s: %w", around, err)
	}
	if why != "" {
		return nil
	}
	err = e.doSteps(ctx, p.Before)
	if err == nil {
		err = p.Run(ctx, e)
	}
	if err != nil {
		e.event(Failed, err.Error(), nil)
		return fmt.Errorf("phase %s: %w", around, err)
	}
	return r.runChildren(ctx, e, prefix, p)
}

// runUndoable runs the phase and, if it asks for that, undoes its changes when it fails.
func (r *runner) runUndoable(ctx context.Context, e *Env, p Phase, address string) error {
	if p.OnError != Undo || e.Undoer == nil {
		return r.runBody(ctx, e, p, address)
	}
	mark := e.Undoer.Mark()
	defer e.Undoer.Release(mark)
	err := r.runBody(ctx, e, p, address)
	if err == nil {
		return nil
	}
	undone := e.Undoer.Undo(context.WithoutCancel(ctx), mark, func(of change.Change, err error) {
		if err != nil {
			e.event(Warned, fmt.Sprintf("not undone: %s: %v", of, err), of)
			return
		}
		e.event(Undone, of.String(), of)
	})
	return errors.Join(err, undone)
}

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

func (r *runner) runBody(ctx context.Context, e *Env, p Phase, address string) error {
	err := e.doSteps(ctx, p.Before)
	if err == nil && p.Run != nil && r.sel.isSelected(address) {
		err = p.Run(ctx, e)
	}
	if err != nil {
		e.event(Failed, err.Error(), nil)
		return fmt.Errorf("phase %s: %w", address, err)
	}
	if err := r.runChildren(ctx, e, address+"/", p); err != nil {
		return err
	}
	return wrapPhaseError(address, e.RunDeferred(ctx))
}

// doneSteps are the steps that this run has done, with their errors.
type doneSteps struct {
	mu   sync.Mutex
	done map[string]func() error
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
		e.doneSteps.mu.Lock()
		once, ok := e.doneSteps.done[s.Name]
		if !ok {
			once = sync.OnceValue(func() error { return s.Run(ctx, e.withPhase(s.Name)) })
			e.doneSteps.done[s.Name] = once
		}
		e.doneSteps.mu.Unlock()
		if err := once(); err != nil {
			return err
		}
	}
	return nil
}

// wrapPhaseError adds the phase to the error.
func wrapPhaseError(address string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("phase %s: %w", address, err)
}

// runConcurrently runs n functions and returns their errors. A panic continues in the goroutine of
// the caller.
func runConcurrently(n int, run func(i int) error) []error {
	errs := make([]error, n)
	panics := make([]any, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = run(i)
		})
	}
	wg.Wait()
	for i := range n {
		if panics[i] != nil {
			panic(panics[i])
		}
	}
	return errs
}
