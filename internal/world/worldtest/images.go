package worldtest

import (
	"slices"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// RuntimeConfig is the input of the suite: the URL of the socket of a container runtime that
// answers, an image that is present, and one that does not exist.
type RuntimeConfig struct{ Socket, Present, Absent string }

// Images checks a container runtime. All its Pods are removed.
func Images(t *testing.T, w world.World, given RuntimeConfig) {
	t.Run("status", func(t *testing.T) {
		all, err := w.Runtimes(newContext(t))
		if err != nil || !slices.Contains(all, given.Socket) {
			t.Errorf("got %q and %v, want %s among them", all, err, given.Socket)
		}
		r, err := w.Runtime(newContext(t), given.Socket)
		if err != nil {
			t.Fatal(err)
		}
		if r.Name == "" || r.Version == "" || !r.Ready || r.Reason != "" {
			t.Errorf("the runtime is not ready: %+v", r)
		}
		drivers := []string{"systemd", "cgroupfs"}
		if r.ReportsDriver != slices.Contains(drivers, r.CgroupDriver) {
			t.Errorf("ReportsDriver is %v and the driver %q", r.ReportsDriver, r.CgroupDriver)
		}
	})
	t.Run("unused socket", func(t *testing.T) {
		if _, err := w.Runtime(newContext(t), "unix:///run/kubeadm-no-such.sock"); err == nil {
			t.Error("a socket that does not exist: want an error")
		}
	})
	t.Run("images", func(t *testing.T) {
		pull := change.PullImage{Socket: given.Socket, Ref: given.Present}
		wantDone(t, w, pull, true)
		pull.Always = true
		wantDone(t, w, pull, false)
		wantDone(t, w, change.PullImage{Socket: given.Socket, Ref: given.Absent}, false)
	})
	t.Run("containers", func(t *testing.T) {
		remove := change.RemoveContainers{Socket: given.Socket}
		mustDo(t, w, remove)
		mustDo(t, w, remove)
		left, err := w.Sandboxes(newContext(t), given.Socket)
		if err != nil || len(left) != 0 {
			t.Errorf("left: %v, %v", left, err)
		}
		containers, err := w.Containers(newContext(t), given.Socket)
		if err != nil || len(containers) != 0 {
			t.Errorf("containers left: %v, %v", containers, err)
		}
	})
}
