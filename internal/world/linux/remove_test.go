package linux

import (
	"os"
	"path/filepath"
	"testing"

	"kubeadm/internal/change"
)

func TestRemovingNeverEntersAMount(t *testing.T) {
	outside, dir := folder(t), folder(t)
	precious := put(t, "precious", outside, "data")
	ordinary := put(t, "x", dir, "pods", "b", "file")
	file := put(t, "x", dir, "pods", "c", "resolv.conf")
	mounted := filepath.Join(dir, "pods", "a", "volume")
	if err := os.MkdirAll(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	bind(t, outside, mounted) // of the same file system, so that device numbers do not tell
	bind(t, precious, file)
	for _, c := range []change.Remove{{Path: dir, Contents: true}, {Path: filepath.Join(dir, "pods")}} {
		fails(t, c, mounted+" is a mount point", file+" is a mount point")
		reads(t, precious, "precious")
		gone(t, ordinary)
	}
	fails(t, change.Remove{Path: mounted}, mounted+" is a mount point")
	do(t, change.Remove{Path: mounted, Contents: true}) // the folder itself was named, so its contents were meant
	gone(t, precious)
}

func TestRemovingDoesNotFollowLinks(t *testing.T) {
	dir := folder(t)
	precious := put(t, "precious", dir, "outside", "data")
	for _, link := range []string{"link", "tree/link"} {
		if err := os.MkdirAll(filepath.Join(dir, "tree"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, "outside"), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	do(t, change.Remove{Path: filepath.Join(dir, "tree"), Contents: true})
	do(t, change.Remove{Path: filepath.Join(dir, "tree")})
	reads(t, precious, "precious")
	link := filepath.Join(dir, "link")
	do(t, change.Remove{Path: link, Contents: true}) // a folder that is kept elsewhere is emptied there
	gone(t, precious)
	do(t, change.Remove{Path: link})
	gone(t, link)
	if _, err := os.Stat(filepath.Join(dir, "outside")); err != nil {
		t.Error(err)
	}
}

// Nothing is harmed where this fails: not even root can remove what is in /proc and /sys.
func TestDirectoriesOfTheSystemAreLeftAlone(t *testing.T) {
	dir := folder(t)
	link, mounted := symlink(t, "/proc", filepath.Join(dir, "link")), filepath.Join(dir, "mounted")
	if err := os.Mkdir(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	bind(t, "/proc", mounted)
	above := symlink(t, "/sys/kernel", filepath.Join(dir, "above")) // in a tree of the system
	chain := symlink(t, "link", filepath.Join(dir, "chain"))
	for _, path := range []string{"/proc", link, chain, mounted, above, link + "/../proc"} {
		fails(t, change.Remove{Path: path, Contents: true}, path, "a directory of the operating system")
		fails(t, change.SetOwner{Path: path, UID: 1, GID: 1, Below: true}, path, "a directory of the operating system")
	}
	fails(t, change.Unmount{Below: above}, above, "a directory of the operating system")
	fails(t, change.Remove{Path: "/proc/self"}, "a directory of the operating system")
	do(t, change.Remove{Path: link})
	gone(t, link)
}

func TestOnlyFoldersHaveContents(t *testing.T) {
	name := put(t, "x", folder(t), "file")
	fails(t, change.Remove{Path: name, Contents: true}, name)
	fails(t, change.Remove{Path: name, OnlyEmpty: true}, name)
	reads(t, name, "x")
}
