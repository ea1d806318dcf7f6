package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

const stranger = 4242 // a user id that is not ours

// foreign gives a path to another user, which takes root.
func foreign(t *testing.T, path string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("giving files away needs root")
	}
	if err := os.Lchown(path, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	return path
}

// shared is a directory like /tmp.
func shared(t *testing.T, mode fs.FileMode) string {
	t.Helper()
	dir := folder(t)
	if err := os.Chmod(dir, mode|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

func symlink(t *testing.T, to, at string) string {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
	return at
}

func owned(t *testing.T, path string, uid uint32, mode fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Sys().(*syscall.Stat_t).Uid; got != uid || info.Mode().Perm() != mode {
		t.Errorf("%s belongs to %d with %v, want %d with %v", path, got, info.Mode(), uid, mode)
	}
}

func TestForeignLinksInSharedDirectoriesAreNotFollowed(t *testing.T) {
	private := folder(t)
	precious := put(t, "precious", private, "file")
	for _, mode := range []fs.FileMode{0o777, 0o775} {
		dir := shared(t, mode)
		file := foreign(t, symlink(t, precious, filepath.Join(dir, "link")))
		below := foreign(t, symlink(t, private, filepath.Join(dir, "dir")))
		chain := symlink(t, file, filepath.Join(private, "chain"))
		for _, path := range []string{file, chain, below + "/file", below + "/new", below + "/../x"} {
			fails(t, change.WriteFile{Path: path, Data: []byte("x"), Mode: 0o600}, "symbolic link of another user", "4242")
		}
		fails(t, change.MakeDir{Path: below + "/new", Mode: 0o755}, "symbolic link of another user")
		fails(t, change.Remove{Path: below, Contents: true}, "symbolic link of another user")
		fails(t, change.Remove{Path: below + "/file"}, "symbolic link of another user")
		fails(t, change.SetOwner{Path: below, UID: stranger, GID: stranger, Below: true}, "symbolic link of another user")
		fails(t, change.SetOwner{Path: file, UID: stranger, GID: stranger}, "symbolic link of another user")
		do(t, change.Remove{Path: file}) // the link itself
		gone(t, file)
		own := symlink(t, precious, filepath.Join(dir, "own"))
		do(t, change.WriteFile{Path: own, Data: []byte("precious"), Mode: 0o600})
		reads(t, precious, "precious")
		if err := os.Remove(chain); err != nil {
			t.Fatal(err)
		}
	}
	// As in the kernel, a directory's owner is trusted there, and all are in one that is not sticky.
	dir := foreign(t, shared(t, 0o777))
	do(t, change.WriteFile{Path: foreign(t, symlink(t, precious, filepath.Join(dir, "link"))), Data: []byte("1"), Mode: 0o600})
	plain := folder(t)
	do(t, change.WriteFile{Path: foreign(t, symlink(t, precious, filepath.Join(plain, "link"))), Data: []byte("2"), Mode: 0o600})
	reads(t, precious, "2")
}

func TestForeignFilesInSharedDirectoriesAreRefused(t *testing.T) {
	dir := shared(t, 0o777)
	file := foreign(t, put(t, "bait", dir, "file"))
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	foreign(t, fifo)
	for _, secret := range []bool{false, true} {
		for _, path := range []string{file, fifo} {
			fails(t, change.WriteFile{Path: path, Data: []byte("x"), Mode: 0o600, Secret: secret}, path, "another user (uid 4242)")
		}
	}
	reads(t, file, "bait")
	own := put(t, "old", dir, "own")
	do(t, change.WriteFile{Path: own, Data: []byte("x"), Mode: 0o600, Secret: true})
	owned(t, own, 0, 0o600) // where others may write, the mode of what was there is not kept
}

func TestASecretInheritsOnlyInAPrivateDirectory(t *testing.T) {
	for _, c := range []struct {
		name   string
		dir    fs.FileMode
		theirs bool // the directory
		output bool
		uid    uint32
		mode   fs.FileMode
	}{
		{name: "our own", dir: 0o755, uid: stranger, mode: 0o640},
		{name: "a file that the user names", dir: 0o755, output: true, mode: 0o600},
		{name: "others may write", dir: 0o757, mode: 0o600},
		{name: "the group may write", dir: 0o775, mode: 0o600},
		{name: "another user's", dir: 0o755, theirs: true, mode: 0o600},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t)
			file := put(t, "old", dir, "file")
			if err := errors.Join(os.Chmod(dir, c.dir), os.Chmod(file, 0o640)); err != nil {
				t.Fatal(err)
			}
			foreign(t, file)
			if c.theirs {
				foreign(t, dir)
			}
			do(t, change.WriteFile{Path: file, Data: []byte("new"), Mode: 0o600, Secret: true, Output: c.output})
			reads(t, file, "new")
			owned(t, file, c.uid, c.mode)
		})
	}
}

func TestAFileForOutputNeedsItsDirectory(t *testing.T) {
	dir := folder(t)
	path := filepath.Join(dir, "none", "new.yaml")
	err := Machine{}.Do(t.Context(), change.WriteFile{Path: path, Mode: 0o600, Output: true})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	gone(t, filepath.Dir(path))
	do(t, change.WriteFile{Path: path, Mode: 0o600})
}

func TestPathsMeanWhatTheKernelMakesOfThem(t *testing.T) {
	dir := folder(t)
	put(t, "x", dir, "a", "b", "file")
	symlink(t, "a/b", filepath.Join(dir, "link"))
	symlink(t, filepath.Join(dir, "loop"), filepath.Join(dir, "loop"))
	t.Chdir(dir)
	for path, want := range map[string]string{
		"new": "new", "./a//n/": "a/n", "link/../up": "a/up", "../" + filepath.Base(dir) + "/back": "back",
		"/proc/self/cwd/magic": "magic", "link/./here": "a/b/here",
	} {
		do(t, change.WriteFile{Path: path, Data: []byte(path), Mode: 0o600})
		reads(t, filepath.Join(dir, want), path)
	}
	fails(t, change.WriteFile{Path: "loop", Mode: 0o600}, "too many levels of symbolic links")
	fails(t, change.WriteFile{Path: "a/b/file/x", Mode: 0o600}, "not a directory")
	fails(t, change.WriteFile{Path: "/", Mode: 0o600}, "not a regular file")
	fails(t, change.WriteFile{Path: "a/..", Mode: 0o600}, "not a regular file")
}
