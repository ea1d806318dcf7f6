package worldtest

import (
	"os"
	"path"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Sysctls checks setting a parameter that is 0 or 1, such as "net.ipv4.ip_forward".
func Sysctls(t *testing.T, w world.World, name string) {
	read := func() string {
		data, err := w.ReadFile(newContext(t), change.SetSysctl{Name: name}.Path())
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	before := read()
	other := change.SetSysctl{Name: name, Value: map[string]string{"0": "1"}[before]}
	if other.Value == "" {
		other.Value = "0"
	}
	wantDone(t, w, other, false)
	doAndUndo(t, w, other)
	if after := read(); after != before {
		t.Errorf("it is %q after its change was undone, want %q", after, before)
	}
}

// Modules checks loading and unloading a module of the kernel that is not loaded.
func Modules(t *testing.T, w world.World, name string) {
	load := change.SetModule{Name: name, Loaded: true}
	wantDone(t, w, load, false)
	wantDone(t, w, change.SetModule{Name: name}, true)
	doAndUndo(t, w, load)
	wantDone(t, w, load, false)
	mustDo(t, w, load)
	mustDo(t, w, load)
	mustDo(t, w, change.SetModule{Name: name})
}

// Swap checks turning off the only swap area of a machine, and on again.
func Swap(t *testing.T, w world.World) {
	areas, err := state.SwapAreas(newContext(t), w)
	if err != nil || len(areas) != 1 {
		t.Fatalf("got %q and %v, want one area", areas, err)
	}
	doAndUndo(t, w, change.SetSwap{Area: areas[0]})
	mustDo(t, w, change.SetSwap{Area: areas[0]})
	mustDo(t, w, change.SetSwap{Area: areas[0]})
	if left, err := state.SwapAreas(newContext(t), w); err != nil || len(left) != 0 {
		t.Errorf("left are %q, %v", left, err)
	}
}

// Disks checks measuring the disk of an existing directory.
func Disks(t *testing.T, w world.World, dir string) {
	times, err := w.SyncTimes(newContext(t), dir)
	if err != nil || len(times) == 0 {
		t.Errorf("got %v and %v", times, err)
	}
	files, err := w.ReadDir(newContext(t), dir)
	if err != nil || len(files) != 0 {
		t.Errorf("the directory has %v, %v", files, err)
	}
	_, err = w.SyncTimes(newContext(t), path.Join(dir, "never-there"))
	if !os.IsNotExist(err) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}
