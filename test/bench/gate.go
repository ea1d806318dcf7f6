package main

import (
	"net/netip"
	"sync"
	"time"
)

// localAtOnce is how many machines run the local part of a join at the same time, which would take each a
// fraction of a second on CPUs of its own.
const localAtOnce = 6

// gate holds the connections of machines to the load balancer until as many as join at once have connected, so
// that all begin with their requests at the same moment.
type gate struct {
	release func() // the held connections
	slots   chan struct{}
	opened  chan struct{}

	mu       sync.Mutex
	expected int
	local    map[netip.Addr]bool // in the local part
	openedAt time.Time
}

// newGate returns a gate that opens when the number of machines expected have connected, or have failed before.
func newGate(expected int) *gate {
	return &gate{release: func() {}, slots: make(chan struct{}, localAtOnce), opened: make(chan struct{}),
		expected: expected, local: make(map[netip.Addr]bool)}
}

// enter waits until a machine may begin with its local part.
func (g *gate) enter(machine netip.Addr) {
	select {
	case <-g.opened:
		return
	case g.slots <- struct{}{}:
	}
	g.mu.Lock()
	g.local[machine] = true
	g.mu.Unlock()
}

// pass ends the local part of a machine: it has connected, or its join has ended.
func (g *gate) pass(machine netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.local[machine] {
		return
	}
	delete(g.local, machine)
	<-g.slots
	if g.expected--; g.expected == 0 {
		g.openedAt = time.Now()
		close(g.opened)
		g.release()
	}
}

// begun returns when the requests of a machine began whose join was started then.
func (g *gate) begun(started time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.openedAt.After(started) {
		return g.openedAt
	}
	return started
}
