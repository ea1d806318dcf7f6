//go:build linux

package linux

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// makeTestDir creates a directory below dir.
func makeTestDir(t *testing.T, name ...string) string {
	t.Helper()
	path := filepath.Join(name...)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnmountInAnyOrder(t *testing.T) {
	dir := newTempDir(t)
	mountTmpfs(t, dir, "") // moving a mount needs a parent that is not shared
	if err := unix.Mount("", dir, "", unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	below := makeTestDir(t, dir, "kubelet")
	mountTmpfs(t, below, "")
	first := makeTestDir(t, below, "with space")
	mountTmpfs(t, first, "")
	second := makeTestDir(t, below, "second")
	mountTmpfs(t, second, "")
	mountTmpfs(t, makeTestDir(t, second, "nested"), "")
	moved := makeTestDir(t, second, "moved")
	if err := unix.Mount(first, moved, "", unix.MS_MOVE, ""); err != nil {
		t.Fatal(err)
	}
	mountTmpfs(t, first, "")
	mountTmpfs(t, first, "") // two mounts on one directory

	got, err := Machine{}.Mounts(t.Context(), below)
	slices.Sort(got)
	want := []string{below, second, moved, filepath.Join(second, "nested"), first, first}
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("got %q and %v, want %q", got, err, want)
	}
	mustDo(t, change.Unmount{Dir: below})
	got, err = Machine{}.Mounts(t.Context(), below)
	if err != nil || !slices.Equal(got, []string{below}) {
		t.Errorf("left: %q and %v, want %q alone", got, err, below)
	}
}

func TestMountsBelowSymlink(t *testing.T) {
	dir := newTempDir(t)
	mountTmpfs(t, makeTestDir(t, dir, "real", "volume"), "")
	link := filepath.Join(dir, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	got, err := Machine{}.Mounts(t.Context(), link)
	if err != nil || !slices.Equal(got, []string{link + "/volume"}) {
		t.Errorf("got %q and %v", got, err)
	}
	c := change.Unmount{Dir: link}
	mustDo(t, c)
	if done, err := c.Done(t.Context(), mountsOnly{}); err != nil || !done {
		t.Errorf("done is %v, %v", done, err)
	}
}

func TestUnmountNamesBusyMount(t *testing.T) {
	dir := newTempDir(t)
	busy, idle := makeTestDir(t, dir, "busy"), makeTestDir(t, dir, "idle")
	mountTmpfs(t, busy, "")
	mountTmpfs(t, idle, "")
	f, err := os.Create(filepath.Join(busy, "open"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	wantDoError(t, change.Unmount{Dir: dir}, "unmounting "+busy+":")
	if left, _ := (Machine{}).Mounts(t.Context(), dir); !slices.Equal(left, []string{busy}) {
		t.Errorf("left: %q, want the busy one alone", left)
	}
	mustDo(t, change.Unmount{Dir: dir, Flags: []string{"MNT_DETACH", "UMOUNT_NOFOLLOW"}})
	mountTmpfs(t, idle, "")
	mustDo(t, change.Unmount{Dir: dir, Flags: []string{"MNT_EXPIRE"}})
	wantDoError(t, change.Unmount{Dir: dir, Flags: []string{"MNT_LAZY"}}, "MNT_LAZY", "MNT_DETACH")
}

// mountsOnly is a Reader of mounts only.
type mountsOnly struct{ state.Reader }

func (mountsOnly) Mounts(ctx context.Context, dir string) ([]string, error) {
	return Machine{}.Mounts(ctx, dir)
}
