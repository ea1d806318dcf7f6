//go:build linux

package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
)

const otherUID = 4242 // a user id that is not ours

// chownToOther makes another user the owner of a path. Without root privileges it skips the test.
func chownToOther(t *testing.T, path string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("changing the owner needs root")
	}
	if err := os.Lchown(path, otherUID, otherUID); err != nil {
		t.Fatal(err)
	}
	return path
}

// newStickyDir returns a directory with the sticky bit, like /tmp.
func newStickyDir(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir := newTempDir(t)
	if err := os.Chmod(dir, mode|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

func makeSymlink(t *testing.T, to, at string) string {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
	return at
}

func wantOwner(t *testing.T, path string, uid uint32, mode fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; got != uid || info.Mode().Perm() != mode {
		t.Errorf("%s belongs to %d with %v, want %d with %v", path, got, info.Mode(), uid, mode)
	}
}

func TestForeignLinksInStickyDirectory(t *testing.T) {
	private := newTempDir(t)
	precious := writeTestFile(t, "precious", private, "file")
	for _, mode := range []fs.FileMode{0o777, 0o775} {
		dir := newStickyDir(t, mode)
		file := chownToOther(t, makeSymlink(t, precious, filepath.Join(dir, "link")))
		below := chownToOther(t, makeSymlink(t, private, filepath.Join(dir, "dir")))
		chain := makeSymlink(t, file, filepath.Join(private, "chain"))
		for _, path := range []string{file, chain, below + "/file", below + "/new",
			below + "/../x"} {
			wantDoError(t, change.WriteFile{Path: path, Data: []byte("x"), Mode: 0o600},
				"symbolic link that belongs to another user", "4242")
		}
		wantDoError(t, change.MakeDir{Path: below + "/new", Mode: 0o755},
			"symbolic link that belongs to another user")
		wantDoError(t, change.Remove{Path: below, Contents: true}, "symbolic link that belongs to another user")
		wantDoError(t, change.Remove{Path: below + "/file"}, "symbolic link that belongs to another user")
		wantDoError(t, change.SetOwner{Path: below, UID: otherUID, GID: otherUID, Recursive: true},
			"symbolic link that belongs to another user")
		wantDoError(t, change.SetOwner{Path: file, UID: otherUID, GID: otherUID},
			"symbolic link that belongs to another user")
		mustDo(t, change.Remove{Path: file}) // the link itself
		wantAbsent(t, file)
		own := makeSymlink(t, precious, filepath.Join(dir, "own"))
		mustDo(t, change.WriteFile{Path: own, Data: []byte("precious"), Mode: 0o600})
		wantContent(t, precious, "precious")
		if err := os.Remove(chain); err != nil {
			t.Fatal(err)
		}
	}
	// As in the kernel, the directory's owner is trusted, and without the sticky bit everyone is.
	dir := chownToOther(t, newStickyDir(t, 0o777))
	mustDo(t, change.WriteFile{Path: chownToOther(t,
		makeSymlink(t, precious, filepath.Join(dir, "link"))), Data: []byte("1"), Mode: 0o600})
	plain := newTempDir(t)
	mustDo(t, change.WriteFile{Path: chownToOther(t,
		makeSymlink(t, precious, filepath.Join(plain, "link"))), Data: []byte("2"), Mode: 0o600})
	wantContent(t, precious, "2")
}

func TestForeignFilesInStickyDirectory(t *testing.T) {
	dir := newStickyDir(t, 0o777)
	file := chownToOther(t, writeTestFile(t, "bait", dir, "file"))
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	chownToOther(t, fifo)
	for _, secret := range []bool{false, true} {
		for _, path := range []string{file, fifo} {
			wantDoError(t, change.WriteFile{Path: path, Data: []byte("x"), Mode: 0o600,
				Secret: secret}, path, "another user (uid 4242)")
		}
	}
	wantContent(t, file, "bait")
	own := writeTestFile(t, "old", dir, "own")
	mustDo(t, change.WriteFile{Path: own, Data: []byte("x"), Mode: 0o600, Secret: true})
	wantOwner(t, own, 0, 0o600) // where others may write, the mode of what was there is not kept
}

func TestSecretInheritsAccessInPrivateDirectoryOnly(t *testing.T) {
	for _, c := range []struct {
		name   string
		dir    fs.FileMode
		theirs bool // the directory
		output bool
		uid    uint32
		mode   fs.FileMode
	}{
		{name: "our own", dir: 0o755, uid: otherUID, mode: 0o640},
		{name: "a file that the user names", dir: 0o755, output: true, mode: 0o600},
		{name: "others may write", dir: 0o757, mode: 0o600},
		{name: "the group may write", dir: 0o775, mode: 0o600},
		{name: "another user's", dir: 0o755, theirs: true, mode: 0o600},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newTempDir(t)
			file := writeTestFile(t, "old", dir, "file")
			if err := errors.Join(os.Chmod(dir, c.dir), os.Chmod(file, 0o640)); err != nil {
				t.Fatal(err)
			}
			chownToOther(t, file)
			if c.theirs {
				chownToOther(t, dir)
			}
			mustDo(t, change.WriteFile{Path: file, Data: []byte("new"), Mode: 0o600, Secret: true,
				Output: c.output})
			wantContent(t, file, "new")
			wantOwner(t, file, c.uid, c.mode)
		})
	}
}

func TestOutputFileNeedsDirectory(t *testing.T) {
	dir := newTempDir(t)
	path := filepath.Join(dir, "none", "new.yaml")
	err := Machine{}.Do(t.Context(), change.WriteFile{Path: path, Mode: 0o600, Output: true})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	wantAbsent(t, filepath.Dir(path))
	mustDo(t, change.WriteFile{Path: path, Mode: 0o600})
}

func TestPathsResolveAsInKernel(t *testing.T) {
	dir := newTempDir(t)
	writeTestFile(t, "x", dir, "a", "b", "file")
	makeSymlink(t, "a/b", filepath.Join(dir, "link"))
	makeSymlink(t, filepath.Join(dir, "loop"), filepath.Join(dir, "loop"))
	t.Chdir(dir)
	for path, want := range map[string]string{
		"new": "new", "./a//n/": "a/n", "link/../up": "a/up",
		"../" + filepath.Base(dir) + "/back": "back",
		"/proc/self/cwd/magic":               "magic", "link/./here": "a/b/here",
	} {
		mustDo(t, change.WriteFile{Path: path, Data: []byte(path), Mode: 0o600})
		wantContent(t, filepath.Join(dir, want), path)
	}
	wantDoError(t, change.WriteFile{Path: "loop", Mode: 0o600}, "too many levels of symbolic links")
	_, err := Machine{}.ReadFile(t.Context(), "loop")
	if !errors.Is(err, unix.ELOOP) || !strings.Contains(strings.Join(problem.Hints(err), ""), "loop is a symbolic link that leads back to itself") {
		t.Errorf("reading a link to itself: %v", err)
	}
	wantDoError(t, change.WriteFile{Path: "a/b/file/x", Mode: 0o600}, "not a directory")
	wantDoError(t, change.WriteFile{Path: "/", Mode: 0o600}, "not a regular file")
	wantDoError(t, change.WriteFile{Path: "a/..", Mode: 0o600}, "not a regular file")
}
