// Package fault is a world for tests that fails at a chosen change or read: with an error, or as
// if the process had been killed, before or after the change took effect.
package fault

import (
	"context"
	"errors"
	"sync"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// ErrInjected is the error of an injected fault.
var ErrInjected = errors.New("injected fault")

// Crash is the value of the panic that simulates a killed process.
type Crash struct{}

// World injects a fault at the At-th change, counted from 0.
type World struct {
	world.World
	At    int
	After bool // the change takes effect first
	Crash bool // panic with Crash instead of returning ErrInjected

	mu      sync.Mutex
	n       int
	crashed bool
}

// Do carries out the change, or injects the fault. After a crash it carries out nothing.
func (w *World) Do(ctx context.Context, c change.Change) error {
	w.mu.Lock()
	fails := w.n == w.At
	w.n++
	crashed := w.crashed
	w.crashed = w.crashed || fails && w.Crash
	w.mu.Unlock()
	if crashed {
		panic(Crash{})
	}
	if !fails {
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
