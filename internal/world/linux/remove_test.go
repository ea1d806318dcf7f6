package linux

import (
	"os"
	"path/filepath"
	"testing"

	"kubeadm/internal/change"
)

func TestRemoveNeverEntersMount(t *testing.T) {
	outside, dir := newTempDir(t), newTempDir(t)
	precious := writeTestFile(t, "precious", outside, "data")
	ordinary := writeTestFile(t, "x", dir, "pods", "b", "file")
	file := writeTestFile(t, "x", dir, "pods", "c", "resolv.conf")
	mounted := filepath.Join(dir, "pods", "a", "volume")
	if err := os.MkdirAll(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	bindMount(t, outside, mounted) // of the same file system, so that device numbers do not tell
	bindMount(t, precious, file)
	for _, c := range []change.Remove{{Path: dir, Contents: true},
		{Path: filepath.Join(dir, "pods")}} {
		wantDoError(t, c, mounted+" is a mount point", file+" is a mount point")
		wantContent(t, precious, "precious")
		wantAbsent(t, ordinary)
	}
	wantDoError(t, change.Remove{Path: mounted}, mounted+" is a mount point")
	// a mount point as the path itself is emptied
	mustDo(t, change.Remove{Path: mounted, Contents: true})
	wantAbsent(t, precious)
}

func TestRemoveDoesNotFollowLinks(t *testing.T) {
	dir := newTempDir(t)
	precious := writeTestFile(t, "precious", dir, "outside", "data")
	for _, link := range []string{"link", "tree/link"} {
		if err := os.MkdirAll(filepath.Join(dir, "tree"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, "outside"), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	mustDo(t, change.Remove{Path: filepath.Join(dir, "tree"), Contents: true})
	mustDo(t, change.Remove{Path: filepath.Join(dir, "tree")})
	wantContent(t, precious, "precious")
	link := filepath.Join(dir, "link")
	mustDo(t, change.Remove{Path: link, Contents: true}) // the target of the link is emptied
	wantAbsent(t, precious)
	mustDo(t, change.Remove{Path: link})
	wantAbsent(t, link)
	if _, err := os.Stat(filepath.Join(dir, "outside")); err != nil {
		t.Error(err)
	}
}

// A failure does no harm: not even root can remove the contents of /proc and /sys.
func TestSystemDirectoriesAreNotRemoved(t *testing.T) {
	dir := newTempDir(t)
	link, mounted := makeSymlink(t, "/proc", filepath.Join(dir, "link")),
		filepath.Join(dir, "mounted")
	if err := os.Mkdir(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	bindMount(t, "/proc", mounted)
	above := makeSymlink(t, "/sys/kernel", filepath.Join(dir, "above")) // in a tree of the system
	chain := makeSymlink(t, "link", filepath.Join(dir, "chain"))
	for _, path := range []string{"/proc", link, chain, mounted, above, link + "/../proc"} {
		wantDoError(t, change.Remove{Path: path, Contents: true}, path,
			"a directory of the operating system")
		wantDoError(t, change.SetOwner{Path: path, UID: 1, GID: 1, Recursive: true}, path,
			"a directory of the operating system")
	}
	wantDoError(t, change.Unmount{Dir: above}, above, "a directory of the operating system")
	wantDoError(t, change.Remove{Path: "/proc/self"}, "a directory of the operating system")
	mustDo(t, change.Remove{Path: link})
	wantAbsent(t, link)
}

func TestRemoveContentsNeedsDirectory(t *testing.T) {
	name := writeTestFile(t, "x", newTempDir(t), "file")
	wantDoError(t, change.Remove{Path: name, Contents: true}, name)
	wantDoError(t, change.Remove{Path: name, OnlyEmpty: true}, name)
	wantContent(t, name, "x")
}
