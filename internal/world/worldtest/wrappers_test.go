package worldtest_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/journal"
	"kubeadm/internal/world/memory"
	"kubeadm/internal/world/preview"
	"kubeadm/internal/world/real"
	"kubeadm/internal/world/worldtest"
)

// machine is a fake with something to start and to unmount.
func machine() *fake.World {
	w := fake.New()
	w.Services["contract"] = state.Service{Exists: true, Enabled: true}
	w.MountList = []string{"/", "/var/lib/kubelet", "/var/lib/kubelet/pods/a"}
	return w
}

func changes(t *testing.T, w world.World) {
	t.Helper()
	t.Run("files", func(t *testing.T) { worldtest.Files(t, w, "/contract") })
	t.Run("accounts", func(t *testing.T) { worldtest.Accounts(t, w, "/accounts") })
	t.Run("owners", func(t *testing.T) { worldtest.Owners(t, w, "/owners") })
	t.Run("services", func(t *testing.T) {
		worldtest.Services(t, w, worldtest.Service{Unit: "contract", File: "/etc/contract"})
	})
	t.Run("mounts", func(t *testing.T) { worldtest.Mounts(t, w, "/var/lib/kubelet") })
	t.Run("doors", func(t *testing.T) { worldtest.Doors(t, w) })
}

// A preview keeps the contract of the world that it stands for, and leaves that world alone.
func TestPreviewTellsTheTruth(t *testing.T) {
	below := machine()
	before := below.Snapshot()
	changes(t, preview.New(below, "", preview.Paths{}))
	if below.Snapshot() != before {
		t.Error("the preview changed the world")
	}
}

func TestPreviewSeesThatAFileIsNoFolder(t *testing.T) {
	below := machine()
	below.Files["/contract"] = memory.File{Mode: 0o644}
	if _, err := preview.New(below, "", preview.Paths{}).ReadDir(t.Context(), "/contract"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestPreviewOfThisMachine(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	worldtest.Files(t, preview.New(real.New(), "", preview.Paths{}), filepath.Join(dir, "contract"))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the preview wrote %v, %v", left, err)
	}
}

func TestJournalIsInvisible(t *testing.T) {
	w, err := journal.Open(machine(), &journal.Memory{}, journal.Run{Command: "contract"})
	if err != nil {
		t.Fatal(err)
	}
	changes(t, w)
	worldtest.Waits(t, w)
}
