package manifestinput_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"kubeadm/internal/manifestinput"
	"kubeadm/internal/world/real"
)

// A mounted ConfigMap consists of symbolic links to files, and of links to directories that are
// not patches.
func TestReadPatchesSkipsOtherFiles(t *testing.T) {
	dir, kept := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(kept, "text"), []byte("spec: {priority: 7}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"..data": kept,
		"kube-scheduler.yaml": filepath.Join(kept, "text"),
		"etcd.txt":            filepath.Join(kept, "none")} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil { // a read would block
		t.Fatal(err)
	}
	patches, notes, err := manifestinput.ReadPatches(t.Context(), real.New(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := patches.Origins("kube-scheduler"); len(got) != 1 ||
		!strings.Contains(got[0], "kube-scheduler.yaml") {
		t.Errorf("the scheduler is patched by %q", got)
	}
	if len(notes) != 3 {
		t.Errorf("notes of files that are skipped: %q", notes)
	}
}
