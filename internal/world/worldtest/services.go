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
	start := change.SetService{Name: given.Unit, Active: true}
	stop := change.SetService{Name: given.Unit}
	t.Run("unknown", func(t *testing.T) {
		const unit = "kubeadm-no-such-unit"
		mustDo(t, w, change.SetService{Name: unit})
		if got := readService(t, w, unit); got != (state.Service{}) {
			t.Errorf("got %+v, want the zero value", got)
		}
	})
	t.Run("start and stop", func(t *testing.T) {
		stopped := state.Service{Exists: true, Enabled: true}
		if got := readService(t, w, given.Unit); got != stopped {
			t.Fatalf("before: got %+v, want %+v", got, stopped)
		}
		wantDone(t, w, start, false)
		wantDone(t, w, stop, true)
		before := w.Now()
		mustDo(t, w, start)
		got := readService(t, w, given.Unit)
		if !got.Exists || !got.Enabled || !got.Active ||
			got.Since.Before(before.Add(-clockLag)) || got.Since.After(w.Now()) {
			t.Errorf("after the start at %s: got %+v", before, got)
		}
		mustDo(t, w, stop)
		if got := readService(t, w, given.Unit); got != stopped {
			t.Errorf("after the stop: got %+v, want %+v", got, stopped)
		}
	})
	t.Run("restart when a file is newer", func(t *testing.T) {
		start := start
		start.Reads = []string{given.File}
		mustDo(t, w, start)
		first := readService(t, w, given.Unit).Since
		// wait until new files have a later modification time
		for deadline := time.Now().Add(time.Minute); w.Now().Before(first.Add(clockLag)); {
			if time.Now().After(deadline) {
				t.Fatal("the clock does not advance")
			}
			time.Sleep(time.Millisecond)
		}
		mustDo(t, w, change.WriteFile{Path: given.File, Data: []byte("x"), Mode: 0o644})
		wantDone(t, w, start, false)
		mustDo(t, w, start)
		if again := readService(t, w, given.Unit).Since; !again.After(first) {
			t.Errorf("started at %s and restarted at %s, want later", first, again)
		}
		mustDo(t, w, stop)
	})
	t.Run("at boot", func(t *testing.T) {
		disable := change.EnableService{Name: given.Unit}
		doAndUndo(t, w, disable)
		mustDo(t, w, disable)
		if readService(t, w, given.Unit).Enabled {
			t.Error("it is enabled after it was disabled")
		}
		mustDo(t, w, change.EnableService{Name: given.Unit, Enabled: true})
		mustDo(t, w, change.EnableService{Name: given.Unit, Enabled: true})
	})
	t.Run("undo", func(t *testing.T) {
		doAndUndo(t, w, start)
		if readService(t, w, given.Unit).Active {
			t.Error("it is active after its start was undone")
		}
	})
}

func readService(t *testing.T, w world.World, unit string) state.Service {
	t.Helper()
	got, err := w.Service(newContext(t), unit)
	if err != nil {
		t.Fatalf("service %s: %v", unit, err)
	}
	return got
}
