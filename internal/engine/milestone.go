package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Milestone is the end of a phase, by its address, such as "certs/ca", or a point that a phase
// reaches before its end: its address, a colon and a name, such as "wait-control-plane:start-etcd".
// A phase lists its points in Points; one that it has not reached when it ends is reached then. Every
// milestone of a phase that is not part of the run is reached from the start.
type Milestone string

// phase is the address of the phase that reaches the milestone.
func (m Milestone) phase() string {
	address, _, _ := strings.Cut(string(m), ":")
	return address
}

// progress is how far the phases of a run have come, and the work that waits for milestones.
type progress struct {
	mu       sync.Mutex
	changed  *sync.Cond
	selected []string    // addresses of all phases of this run
	points   []Milestone // those that phases list
	reached  []Milestone
	deferred []deferredWork
}

// deferredWork is what a phase has left to do at a milestone.
type deferredWork struct {
	milestone Milestone
	phase     string // which deferred it
	do        func(ctx context.Context, e *Env) error
}

func newProgress() *progress {
	p := &progress{}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// listPoints returns the points that phases list, with those of their children.
func listPoints(phases []Phase) (all []Milestone) {
	for _, p := range phases {
		all = append(append(all, p.Points...), listPoints(p.Phases)...)
	}
	return all
}

// checkPoints returns an error if a phase of this run does not list a point. Otherwise a misspelled one
// would only be reached late, when its phase ends, and no test would notice.
func (p *progress) checkPoints(milestones ...Milestone) error {
	for _, m := range milestones {
		if string(m) != m.phase() && slices.Contains(p.selected, m.phase()) &&
			!slices.Contains(p.points, m) {
			return fmt.Errorf("phase %q has no point %q", m.phase(), m)
		}
	}
	return nil
}

// isReached needs the lock.
func (p *progress) isReached(m Milestone) bool {
	return !slices.Contains(p.selected, m.phase()) ||
		slices.ContainsFunc(p.reached, func(reached Milestone) bool {
			return reached == m || isAtOrBelow(m.phase(), string(reached))
		})
}

// canceledWait is the error of a phase that was canceled while it waited for others.
type canceledWait struct{ error }

func (w canceledWait) Unwrap() error { return w.error }

// AwaitMilestones waits until milestones of phases that run beside this one are reached. Where phases
// run one after the other it does not wait. A canceled context is an error, also if there is nothing to
// wait for.
func (e *Env) AwaitMilestones(ctx context.Context, milestones ...Milestone) error {
	p := e.progress
	if err := p.checkPoints(milestones...); err != nil {
		return err
	}
	if !e.linked || len(milestones) == 0 {
		return context.Cause(ctx)
	}
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	isAhead := func(m Milestone) bool { return !p.isReached(m) }
	for ctx.Err() == nil && slices.ContainsFunc(milestones, isAhead) {
		p.changed.Wait()
	}
	if err := context.Cause(ctx); err != nil {
		return canceledWait{err}
	}
	return nil
}

// Runs reports whether a phase is part of this run.
func (e *Env) Runs(address string) bool {
	e.progress.mu.Lock()
	defer e.progress.mu.Unlock()
	return slices.Contains(e.progress.selected, address)
}

// takeDeferred removes the work that waits for these milestones, and returns it in the order in
// which it was deferred. If there is none, the milestone is marked as reached in the same moment.
func (p *progress) takeDeferred(reached Milestone, isFor func(Milestone) bool) (all []deferredWork) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deferred = slices.DeleteFunc(p.deferred, func(w deferredWork) bool {
		if isFor(w.milestone) {
			all = append(all, w)
		}
		return isFor(w.milestone)
	})
	if len(all) == 0 && !slices.Contains(p.reached, reached) {
		p.reached = append(p.reached, reached)
		p.changed.Broadcast()
	}
	return all
}

// Defer leaves work for a milestone: the phase that reaches it does the work then, with an Env whose
// events have the name of the phase that deferred it. If the milestone is reached already, the work is
// done at once.
func (e *Env) Defer(ctx context.Context, m Milestone,
	work func(ctx context.Context, e *Env) error) error {
	if err := e.progress.checkPoints(m); err != nil {
		return err
	}
	e.progress.mu.Lock()
	isReached := e.progress.isReached(m)
	if !isReached {
		e.progress.deferred = append(e.progress.deferred, deferredWork{m, e.phase, work})
	}
	e.progress.mu.Unlock()
	if isReached {
		return work(ctx, e)
	}
	return nil
}

// reach does the work that waits for milestones of this phase, and marks one of them as reached.
func (e *Env) reach(ctx context.Context, m Milestone, isFor func(Milestone) bool) error {
	for {
		all := e.progress.takeDeferred(m, isFor)
		if len(all) == 0 {
			return nil
		}
		for _, work := range all {
			if err := work.do(ctx, e.Named(work.phase)); err != nil {
				return err
			}
		}
	}
}

// Reach does the work that phases have deferred to points of this phase, one point after the other,
// and then starts the phases that wait for them. For a point that is reached already it does nothing.
func (e *Env) Reach(ctx context.Context, points ...Milestone) error {
	if err := e.progress.checkPoints(points...); err != nil {
		return err
	}
	for _, m := range points {
		err := e.reach(ctx, m, func(of Milestone) bool { return of == m })
		if err != nil {
			return err
		}
	}
	return nil
}

// end does the work that is left for this phase, and starts the phases that wait for its end.
func (e *Env) end(ctx context.Context) error {
	return e.reach(ctx, Milestone(e.phase),
		func(of Milestone) bool { return of.phase() == e.phase })
}

// isLinked reports whether a phase below p waits for another one.
func isLinked(p Phase) bool {
	return slices.ContainsFunc(p.Phases,
		func(child Phase) bool { return len(child.After) > 0 || isLinked(child) })
}

// runLinked runs the phases of a parallel group of which some wait for others. When one fails, the
// others are canceled: they may be waiting for what that one should have done. It returns the first
// error of a phase that was at work, else of one that waited.
func (r *runner) runLinked(ctx context.Context, e *Env, prefix string, phases []Phase) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var failure, waiting error
	e.runBranches(len(phases), func(i int, branch *Env) error {
		branch.linked = true
		ended := false // a panic must not leave others waiting
		defer func() {
			if !ended {
				cancel(context.Canceled)
			}
		}()
		err := r.runPhase(ctx, branch, prefix, phases[i])
		ended = true
		mu.Lock()
		defer mu.Unlock()
		if _, waited := errors.AsType[canceledWait](err); waited {
			waiting = cmp.Or(waiting, err)
		} else if err != nil {
			failure = cmp.Or(failure, err)
			cancel(err)
		}
		return err
	})
	return cmp.Or(failure, waiting)
}
