package worldtest

import (
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// tick is by how much the times of files may lag behind the clock.
const tick = 200 * time.Millisecond

// Service is what the suite of services needs: a unit that exists, is enabled, does not run
// and stays up once it was started; and a path at which there is no file yet.
type Service struct{ Unit, File string }

// Services checks reading and changing services.
func Services(t *testing.T, w world.World, given Service) {
	s := services{w, given}
	t.Run("unknown", s.unknown)
	t.Run("start and stop", s.startStop)
	t.Run("start again when a file is newer", s.reads)
	t.Run("put back", s.putBack)
}

type services struct {
	w world.World
	Service
}

func (s services) state(t *testing.T, unit string) state.Service {
	t.Helper()
	got, err := s.w.Service(limited(t), unit)
	if err != nil {
		t.Fatalf("service %s: %v", unit, err)
	}
	return got
}

func (s services) unknown(t *testing.T) {
	const unit = "kubeadm-no-such-unit"
	do(t, s.w, change.SetService{Name: unit})
	if got := s.state(t, unit); got != (state.Service{}) {
		t.Errorf("got %+v, want nothing", got)
	}
}

func (s services) startStop(t *testing.T) {
	stopped := state.Service{Exists: true, Enabled: true}
	if got := s.state(t, s.Unit); got != stopped {
		t.Fatalf("before: got %+v, want %+v", got, stopped)
	}
	start, stop := change.SetService{Name: s.Unit, Active: true}, change.SetService{Name: s.Unit}
	isDone(t, s.w, start, false)
	isDone(t, s.w, stop, true)
	before := s.w.Now()
	do(t, s.w, start)
	got := s.state(t, s.Unit)
	if !got.Exists || !got.Enabled || !got.Active || got.Since.Before(before.Add(-tick)) || got.Since.After(s.w.Now()) {
		t.Errorf("after the start at %s: got %+v", before, got)
	}
	do(t, s.w, stop)
	if got := s.state(t, s.Unit); got != stopped {
		t.Errorf("after the stop: got %+v, want %+v", got, stopped)
	}
}

func (s services) reads(t *testing.T) {
	start := change.SetService{Name: s.Unit, Active: true, Reads: []string{s.File}}
	do(t, s.w, start)
	first := s.state(t, s.Unit).Since
	s.later(t, first)
	do(t, s.w, change.WriteFile{Path: s.File, Data: []byte("x"), Mode: 0o644})
	isDone(t, s.w, start, false)
	do(t, s.w, start)
	if again := s.state(t, s.Unit).Since; !again.After(first) {
		t.Errorf("started at %s and again at %s, want later", first, again)
	}
	do(t, s.w, change.SetService{Name: s.Unit})
}

// later waits until the times of files have caught up with a moment.
func (s services) later(t *testing.T, moment time.Time) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.w.Now().Before(moment.Add(tick)); {
		if time.Now().After(deadline) {
			t.Fatal("the clock stands still")
		}
		time.Sleep(time.Millisecond)
	}
}

func (s services) putBack(t *testing.T) {
	undone(t, s.w, change.SetService{Name: s.Unit, Active: true})
	if s.state(t, s.Unit).Active {
		t.Error("it still runs after its start was undone")
	}
}
