package worldtest

import (
	"slices"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// Runtime is what the suite of images needs: the URL of the socket of a container runtime that
// answers, an image that it holds, and one that exists nowhere.
type Runtime struct{ Socket, Present, Absent string }

// Images checks a container runtime. All its Pods are removed.
func Images(t *testing.T, w world.World, given Runtime) {
	i := images{w, given}
	t.Run("condition", i.condition)
	t.Run("nobody answers", i.nobody)
	t.Run("images", i.images)
	t.Run("containers", i.containers)
}

type images struct {
	w world.World
	Runtime
}

func (i images) condition(t *testing.T) {
	all, err := i.w.Runtimes(limited(t))
	if err != nil || !slices.Contains(all, i.Socket) {
		t.Errorf("got %q and %v, want %s among them", all, err, i.Socket)
	}
	r, err := i.w.Runtime(limited(t), i.Socket)
	if err != nil {
		t.Fatal(err)
	}
	if r.Name == "" || r.Version == "" || !r.Ready || r.Reason != "" {
		t.Errorf("it answers and is not ready: %+v", r)
	}
	drivers := []string{"systemd", "cgroupfs"}
	if r.ReportsDriver != slices.Contains(drivers, r.CgroupDriver) {
		t.Errorf("it reports a cgroup driver: %v, and it is %q", r.ReportsDriver, r.CgroupDriver)
	}
}

func (i images) nobody(t *testing.T) {
	if _, err := i.w.Runtime(limited(t), "unix:///run/kubeadm-no-such.sock"); err == nil {
		t.Error("a socket that does not exist: want an error")
	}
}

func (i images) images(t *testing.T) {
	isDone(t, i.w, change.PullImage{Socket: i.Socket, Ref: i.Present}, true)
	isDone(t, i.w, change.PullImage{Socket: i.Socket, Ref: i.Present, Always: true}, false)
	isDone(t, i.w, change.PullImage{Socket: i.Socket, Ref: i.Absent}, false)
}

func (i images) containers(t *testing.T) {
	remove := change.RemoveContainers{Socket: i.Socket}
	do(t, i.w, remove)
	do(t, i.w, remove)
	left, err := i.w.Sandboxes(limited(t), i.Socket)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	containers, err := i.w.Containers(limited(t), i.Socket)
	if err != nil || len(containers) != 0 {
		t.Errorf("containers left: %v, %v", containers, err)
	}
}
