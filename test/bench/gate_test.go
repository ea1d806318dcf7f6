package main

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestGateOpensWhenAllHaveConnectedOrFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const machines = 3 * localAtOnce
		g, released := newGate(machines), false
		g.release = func() { released = true }
		started := time.Now()
		for i := range machines {
			go func() {
				g.enter(addressOfMachine(i + 1))
				time.Sleep(time.Second) // the local part
				g.pass(addressOfMachine(i + 1))
				g.pass(addressOfMachine(i + 1)) // a repeated connection
			}()
		}
		time.Sleep(2500 * time.Millisecond)
		if released {
			t.Error("opened when a third of the machines was in the local part")
		}
		<-g.opened
		if took := time.Since(started); took != 3*time.Second || !released {
			t.Errorf("took %s, released: %t", took, released)
		}
		if got := g.begun(started); got != g.openedAt {
			t.Errorf("requests of a machine that waited began at %s, want %s", got, g.openedAt)
		}
		later := time.Now().Add(time.Minute)
		g.enter(addressOfMachine(machines + 1)) // waits for none
		g.pass(addressOfMachine(machines + 1))
		if got := g.begun(later); got != later {
			t.Errorf("requests of a later machine began at %s, want %s", got, later)
		}
	})
}
