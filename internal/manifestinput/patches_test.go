package manifestinput_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	if out, err := exec.Command("mkfifo", filepath.Join(dir, "pipe")).CombinedOutput(); err != nil { // a read would block
		t.Fatalf("%v: %s", err, out)
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

// A FIFO with the name of a patch is read, as with a process substitution. Without a writer the read
// ends with its context.
func TestReadPatchFromFIFO(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "kube-scheduler.yaml")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, _, err := manifestinput.ReadPatches(ctx, real.New(), dir); err == nil ||
		!strings.Contains(err.Error(), fifo) {
		t.Errorf("without a writer: %v", err)
	}
	go func() {
		if err := os.WriteFile(fifo, []byte("spec: {priority: 7}"), 0o600); err != nil {
			t.Error(err)
		}
	}()
	patches, _, err := manifestinput.ReadPatches(t.Context(), real.New(), dir)
	if err != nil || len(patches.Origins("kube-scheduler")) != 1 {
		t.Errorf("patches %q, error %v", patches.Origins("kube-scheduler"), err)
	}
}
