// Package fault is a world that breaks at a chosen change: by an error, or as if the
// process had been killed, before or after the change took effect.
package fault

import (
	"context"
	"errors"
	"sync"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// ErrInjected is the error of a change that was made to fail.
var ErrInjected = errors.New("injected fault")

// Crash is what a world panics with to imitate the end of the process.
type Crash struct{}

// World breaks the At-th change, counted from 0.
type World struct {
	world.World
	At    int
	After bool // the change takes effect first
	Crash bool // panic with Crash instead of returning ErrInjected

	mu   sync.Mutex
	n    int
	dead bool
}

// Do carries out the change, or breaks. After a crash nothing is carried out any more.
func (w *World) Do(ctx context.Context, c change.Change) error {
	w.mu.Lock()
	hit := w.n == w.At
	w.n++
	dead := w.dead
	w.dead = w.dead || hit && w.Crash
	w.mu.Unlock()
	if dead {
		panic(Crash{})
	}
	if !hit {
		return w.World.Do(ctx, c)
	}
	if w.After {
		if err := w.World.Do(ctx, c); err != nil {
			return err
		}
	}
	if w.Crash {
		panic(Crash{})
	}
	return ErrInjected
}

// Changes is how many changes were asked for so far.
func (w *World) Changes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}
