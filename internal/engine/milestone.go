package engine

import (
	"context"
	"slices"
	"sync"
)

// Milestone is how far the first phase of a parallel group has come.
type Milestone string

// lead tells the other phases of a group how far the first one has come.
type lead struct {
	mu      sync.Mutex
	changed *sync.Cond
	reached []Milestone
	ended   bool
	failed  bool
}

func (l *lead) reach(m Milestone) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reached = append(l.reached, m)
	l.changed.Broadcast()
}

// end says that the first phase has ended.
func (l *lead) end(failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.failed = true, failed
	l.changed.Broadcast()
}

// await waits for the milestone or the end of the first phase, and reports whether a phase after the
// milestone may begin.
func (l *lead) await(m Milestone) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m != "" && !slices.Contains(l.reached, m) && !l.ended {
		l.changed.Wait()
	}
	return m == "" || slices.Contains(l.reached, m) || !l.failed
}

// Reach starts the phases of the group that wait for the milestone of this one. Where none does, as
// when this one runs alone, nothing happens.
func (e *Env) Reach(m Milestone) {
	if e.lead != nil {
		e.lead.reach(m)
	}
}

// runLed runs the phases of a group, some of which wait for milestones of the first one. When one
// fails, the others are canceled: the first one may be waiting for what that one should have done.
func (r *runner) runLed(ctx context.Context, e *Env, prefix string, phases []Phase) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	first := &lead{}
	first.changed = sync.NewCond(&first.mu)
	var once sync.Once
	var failure error // the first one
	run := func(i int, branch *Env) error {
		err := r.runPhase(ctx, branch, prefix, phases[i])
		if err != nil {
			once.Do(func() { failure = err })
			cancel(err)
		}
		return err
	}
	e.runBranches(len(phases), func(i int, branch *Env) error {
		if i > 0 {
			if !first.await(phases[i].After) {
				return nil
			}
			return run(i, branch)
		}
		failed := true // unless it succeeds; it may panic
		defer func() { first.end(failed) }()
		branch.lead = first
		err := run(i, branch)
		failed = err != nil
		return err
	})
	return failure
}
