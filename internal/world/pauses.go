package world

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Patience is the most that pauses which a busy server asks for extend a wait, or a read of many pages: an API server with
// too many requests asks for up to half a minute each time, of which a minute has two.
const Patience = 4 * time.Minute

// patienceFactor limits it for short waits, which are for what must not take long.
const patienceFactor = 4

// Pauses are those that busy servers asked for during waits that follow each other, or are part of each other.
type Pauses struct {
	outer *Pauses         // of the wait that these are part of
	base  context.Context // which no wait limits

	mu    sync.Mutex
	limit time.Time // of the checks of the wait
	made  time.Duration
	until time.Time // the end of the last one
}

// pausesKey is the context key of the innermost Pauses.
type pausesKey struct{}

// CountPauses returns a context for waits, and their pauses.
func CountPauses(ctx context.Context) (context.Context, *Pauses) {
	p := &Pauses{base: ctx}
	if p.outer, _ = ctx.Value(pausesKey{}).(*Pauses); p.outer.limits(ctx) {
		p.base = p.outer.base
	}
	return context.WithValue(ctx, pausesKey{}, p), p
}

// limitCheck returns the context for a check of the wait.
func (p *Pauses) limitCheck(ctx context.Context, limit time.Time) (context.Context, context.CancelFunc) {
	p.mu.Lock()
	p.limit = limit
	p.mu.Unlock()
	return context.WithDeadline(ctx, limit)
}

// limits reports whether the context ends because the wait does, and not earlier.
func (p *Pauses) limits(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	if !ok || p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return deadline.Equal(p.limit)
}

// Total is the time of the pauses, at most Patience. Of those at the same time it counts one.
func (p *Pauses) Total() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(p.made, Patience)
}

// extension is how much longer a wait may take.
func (p *Pauses) extension(timeout time.Duration) time.Duration {
	return min(p.Total(), patienceFactor*timeout)
}

func (p *Pauses) add(pause time.Duration) {
	from := time.Now()
	to := from.Add(pause)
	for ; p != nil; p = p.outer {
		p.mu.Lock()
		if p.until.After(from) {
			p.made += max(to.Sub(p.until), 0)
		} else {
			p.made += pause
		}
		if to.After(p.until) {
			p.until = to
		}
		p.mu.Unlock()
	}
}

// sleep waits until the pause or the context is over. A pause that is shared with the wait that this one is part of is made
// to its end, also after that wait has ended this one: it extends that wait, whose next check must not come early.
func (p *Pauses) sleep(ctx context.Context, pause time.Duration, isShared bool) {
	over := time.NewTimer(pause)
	defer over.Stop()
	select {
	case <-over.C:
		return
	case <-ctx.Done():
	}
	if isShared && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		select {
		case <-over.C:
		case <-p.base.Done():
		}
	}
}
