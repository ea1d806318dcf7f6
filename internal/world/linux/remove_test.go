//go:build linux

package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

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

// Whoever writes a Pod's volume decides how deep it is. A path of it would be too long for any system call.
func TestDeepTreeIsRemovedWithinLimits(t *testing.T) {
	const depth = 5_000
	for name, contents := range map[string]bool{"path": false, "contents": true} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(newTempDir(t), "deep")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			for i := 0; err == nil && i < depth; i++ {
				if err = unix.Mkdirat(fd, "directory", 0o700); err == nil {
					err = unix.Mkdirat(fd, "sibling", 0o700)
				}
				below := -1
				if err == nil {
					below, err = unix.Openat(fd, "directory", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
				}
				_ = unix.Close(fd)
				fd = below
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = unix.Close(fd)
			limitDescriptors(t, 16)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			mustDo(t, change.Remove{Path: dir, Contents: contents})
			runtime.ReadMemStats(&after)
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 64 {
				t.Errorf("it allocated %d MiB", used)
			}
			if left, err := os.ReadDir(dir); len(left) > 0 || err == nil != contents {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// limitDescriptors lets the process open that many more files until the test ends.
func limitDescriptors(t *testing.T, more int) {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	var limit unix.Rlimit
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	}
	if err != nil {
		t.Fatal(err)
	}
	lower := limit
	lower.Cur = uint64(len(open) + more)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	})
}

// What cannot be removed stays with what is above it, and all else goes.
func TestRemoveGoesOnAfterAFailure(t *testing.T) {
	dir := newTempDir(t)
	for i := range 300 {
		writeTestFile(t, "x", dir, "wide", fmt.Sprint(i), "file")
	}
	outside := newTempDir(t)
	var mounts []string
	for i := range 3 {
		mounts = append(mounts, filepath.Join(dir, "wide", fmt.Sprint(i*100), "deep", "volume"))
		if err := os.MkdirAll(mounts[i], 0o755); err != nil {
			t.Fatal(err)
		}
		bindMount(t, outside, mounts[i])
	}
	wantDoError(t, change.Remove{Path: filepath.Join(dir, "wide")}, mounts[0]+" is a mount point",
		mounts[1]+" is a mount point", mounts[2]+" is a mount point")
	left, err := os.ReadDir(filepath.Join(dir, "wide"))
	if err != nil || len(left) != 3 {
		t.Errorf("%d entries are left: %v", len(left), err)
	}
}
