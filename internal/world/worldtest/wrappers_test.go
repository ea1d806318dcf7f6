package worldtest_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/dryrun"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/real"
	"kubeadm/internal/world/worldtest"
)

// newMachine returns a simulated machine with a service and mounts.
func newMachine() *fake.World {
	w := fake.New()
	w.Services["contract"] = state.Service{Exists: true, Enabled: true}
	w.MountList = []string{"/", "/var/lib/kubelet", "/var/lib/kubelet/pods/a"}
	addControlGroups(w)
	addSwap(w)
	return w
}

func testChanges(t *testing.T, w world.World) {
	t.Helper()
	t.Run("files", func(t *testing.T) { worldtest.Files(t, w, "/contract") })
	t.Run("accounts", func(t *testing.T) { worldtest.Accounts(t, w, "/accounts") })
	t.Run("owners", func(t *testing.T) { worldtest.Owners(t, w, "/owners") })
	t.Run("services", func(t *testing.T) {
		worldtest.Services(t, w, worldtest.ServiceConfig{Unit: "contract", File: "/etc/contract"})
	})
	t.Run("kernel", func(t *testing.T) { testKernel(t, w) })
	t.Run("control groups", func(t *testing.T) { worldtest.ControlGroups(t, w, "/sys/fs/cgroup") })
	t.Run("mounts", func(t *testing.T) { worldtest.Mounts(t, w, "/var/lib/kubelet") })
	t.Run("unknown changes", func(t *testing.T) { worldtest.UnknownChanges(t, w) })
}

// testKernel tests a simulated kernel with one swap area.
func testKernel(t *testing.T, w world.World) {
	t.Helper()
	worldtest.Sysctls(t, w, "net.ipv4.ip_forward")
	worldtest.Modules(t, w, "contract-module")
	worldtest.Swap(t, w)
}

// A preview passes the suites without a change of the world below it.
func TestDryRunPassesSuites(t *testing.T) {
	below := newMachine()
	before := below.Snapshot()
	testChanges(t, dryrun.New(below, "", dryrun.Paths{}))
	if below.Snapshot() != before {
		t.Error("the preview changed the world")
	}
}

func TestDryRunReadDirOfFile(t *testing.T) {
	below := newMachine()
	below.Files["/contract"] = memory.File{Mode: 0o644}
	if _, err := dryrun.New(below, "", dryrun.Paths{}).ReadDir(t.Context(),
		"/contract"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestDryRunOfThisMachine(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	worldtest.Files(t, dryrun.New(real.New(), "", dryrun.Paths{}), filepath.Join(dir, "contract"))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the preview wrote %v, %v", left, err)
	}
}

func TestJournalPassesSuites(t *testing.T) {
	w, err := journal.Open(newMachine(), &journal.Memory{}, journal.RunID{Command: "contract"})
	if err != nil {
		t.Fatal(err)
	}
	testChanges(t, w)
	worldtest.Await(t, w)
}
