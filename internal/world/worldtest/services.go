package worldtest

import (
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// clockLag is how far the modification times of files may lag behind the clock.
const clockLag = 200 * time.Millisecond

// ServiceConfig is the input of the suite: a unit that exists, is enabled, does not run
// and keeps running once it was started; and the path of a file that does not exist yet.
type ServiceConfig struct{ Unit, File string }

// Services checks reading and changing services.
func Services(t *testing.T, w world.World, given ServiceConfig) {
	s := serviceSuite{w, given}
	t.Run("unknown", s.unknown)
	t.Run("start and stop", s.startStop)
	t.Run("restart when a file is newer", s.reads)
	t.Run("undo", s.undo)
}

type serviceSuite struct {
	w world.World
	ServiceConfig
}

func (s serviceSuite) state(t *testing.T, unit string) state.Service {
	t.Helper()
	got, err := s.w.Service(newContext(t), unit)
	if err != nil {
		t.Fatalf("service %s: %v", unit, err)
	}
	return got
}

func (s serviceSuite) unknown(t *testing.T) {
	const unit = "kubeadm-no-such-unit"
	mustDo(t, s.w, change.SetService{Name: unit})
	if got := s.state(t, unit); got != (state.Service{}) {
		t.Errorf("got %+v, want the zero value", got)
	}
}

func (s serviceSuite) startStop(t *testing.T) {
	stopped := state.Service{Exists: true, Enabled: true}
	if got := s.state(t, s.Unit); got != stopped {
		t.Fatalf("before: got %+v, want %+v", got, stopped)
	}
	start, stop := change.SetService{Name: s.Unit, Active: true}, change.SetService{Name: s.Unit}
	wantDone(t, s.w, start, false)
	wantDone(t, s.w, stop, true)
	before := s.w.Now()
	mustDo(t, s.w, start)
	got := s.state(t, s.Unit)
	if !got.Exists || !got.Enabled || !got.Active || got.Since.Before(before.Add(-clockLag)) ||
		got.Since.After(s.w.Now()) {
		t.Errorf("after the start at %s: got %+v", before, got)
	}
	mustDo(t, s.w, stop)
	if got := s.state(t, s.Unit); got != stopped {
		t.Errorf("after the stop: got %+v, want %+v", got, stopped)
	}
}

func (s serviceSuite) reads(t *testing.T) {
	start := change.SetService{Name: s.Unit, Active: true, Reads: []string{s.File}}
	mustDo(t, s.w, start)
	first := s.state(t, s.Unit).Since
	s.waitForClock(t, first)
	mustDo(t, s.w, change.WriteFile{Path: s.File, Data: []byte("x"), Mode: 0o644})
	wantDone(t, s.w, start, false)
	mustDo(t, s.w, start)
	if again := s.state(t, s.Unit).Since; !again.After(first) {
		t.Errorf("started at %s and restarted at %s, want later", first, again)
	}
	mustDo(t, s.w, change.SetService{Name: s.Unit})
}

// waitForClock waits until new files have a later modification time than moment.
func (s serviceSuite) waitForClock(t *testing.T, moment time.Time) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.w.Now().Before(moment.Add(clockLag)); {
		if time.Now().After(deadline) {
			t.Fatal("the clock does not advance")
		}
		time.Sleep(time.Millisecond)
	}
}

func (s serviceSuite) undo(t *testing.T) {
	doAndUndo(t, s.w, change.SetService{Name: s.Unit, Active: true})
	if s.state(t, s.Unit).Active {
		t.Error("it is active after its start was undone")
	}
}
