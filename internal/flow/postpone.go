package flow

import (
	"context"
	"slices"
	"sync"
)

// deferredWork is what phases have left to later ones.
type deferredWork struct {
	mu   sync.Mutex
	runs []string                                     // addresses of all phases of this run
	work map[string][]func(ctx context.Context) error // by the address of who is to do it
}

// Postpone leaves work to a later phase, which calls Due when the time for it has come; at the latest it is done when that
// phase ends or turns out to be pointless. Where that phase is no part of this run, it is done at once.
func (e *Env) Postpone(ctx context.Context, phase string, work func(ctx context.Context) error) error {
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

// Due does what earlier phases have left to this one.
func (e *Env) Due(ctx context.Context) error {
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
