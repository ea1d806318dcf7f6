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
	i := imageSuite{w, given}
	t.Run("status", i.condition)
	t.Run("unused socket", i.unusedSocket)
	t.Run("images", i.images)
	t.Run("containers", i.containers)
}

type imageSuite struct {
	w world.World
	RuntimeConfig
}

func (i imageSuite) condition(t *testing.T) {
	all, err := i.w.Runtimes(newContext(t))
	if err != nil || !slices.Contains(all, i.Socket) {
		t.Errorf("got %q and %v, want %s among them", all, err, i.Socket)
	}
	r, err := i.w.Runtime(newContext(t), i.Socket)
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
}

func (i imageSuite) unusedSocket(t *testing.T) {
	if _, err := i.w.Runtime(newContext(t), "unix:///run/kubeadm-no-such.sock"); err == nil {
		t.Error("a socket that does not exist: want an error")
	}
}

func (i imageSuite) images(t *testing.T) {
	wantDone(t, i.w, change.PullImage{Socket: i.Socket, Ref: i.Present}, true)
	wantDone(t, i.w, change.PullImage{Socket: i.Socket, Ref: i.Present, Always: true}, false)
	wantDone(t, i.w, change.PullImage{Socket: i.Socket, Ref: i.Absent}, false)
}

func (i imageSuite) containers(t *testing.T) {
	remove := change.RemoveContainers{Socket: i.Socket}
	mustDo(t, i.w, remove)
	mustDo(t, i.w, remove)
	left, err := i.w.Sandboxes(newContext(t), i.Socket)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	containers, err := i.w.Containers(newContext(t), i.Socket)
	if err != nil || len(containers) != 0 {
		t.Errorf("containers left: %v, %v", containers, err)
	}
}
