package engine

import (
	"context"
	"slices"
	"sync"
)

// deferredWork is what phases have deferred to later ones.
type deferredWork struct {
	mu   sync.Mutex
	runs []string                                     // addresses of all phases of this run
	work map[string][]func(ctx context.Context) error // by the address of the later phase
}

// Defer defers work to a later phase, which calls RunDeferred at the right moment. At the latest it
// is done when that phase ends or is skipped because of its condition. If that phase does not run,
// the work is done at once.
func (e *Env) Defer(ctx context.Context, phase string, work func(ctx context.Context) error) error {
	p := e.deferred
	p.mu.Lock()
	later := slices.Contains(p.runs, phase)
	if later {
		p.work[phase] = append(p.work[phase], work)
	}
	p.mu.Unlock()
	if later {
		return nil
	}
	return work(ctx)
}

// RunDeferred does the work that earlier phases have deferred to this one.
func (e *Env) RunDeferred(ctx context.Context) error {
	p := e.deferred
	p.mu.Lock()
	all := p.work[e.phase]
	delete(p.work, e.phase)
	p.mu.Unlock()
	for _, work := range all {
		if err := work(ctx); err != nil {
			return err
		}
	}
	return nil
}
