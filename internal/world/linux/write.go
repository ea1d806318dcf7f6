package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
)

// writeFile replaces the file as a whole: it is written beside the old one, synced and renamed.
// A symbolic link stays and its target is replaced; an existing file keeps its mode, its owner and
// what else says who may do what with it.
func writeFile(c change.WriteFile) error {
	path, err := target(c.Path)
	if err != nil {
		return err
	}
	if err := makeDirs(filepath.Dir(path), 0o755); err != nil {
		return explain(path, err)
	}
	if err := sweep(path); err != nil {
		return explain(path, err)
	}
	return explain(path, replace(path, c))
}

// target follows a symbolic link to the file that is to be written.
func target(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return path, nil // what is wrong with it shows when it is written
	}
	end, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is a symbolic link to something that does not exist: remove the link, or make what it points to", path)
	}
	return end, err
}

func replace(path string, c change.WriteFile) error {
	mode := c.Mode.Perm()
	old, err := os.Stat(path)
	switch {
	case err == nil && !old.Mode().IsRegular():
		return fmt.Errorf("%s is in the way: it is not a regular file", path)
	case err == nil:
		mode = old.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer f.Cleanup()
	if err := keepOwner(f.File, old); err != nil {
		return err
	}
	if err := keepAccess(f.File, path); err != nil {
		return err
	}
	if _, err := f.Write(c.Data); err != nil {
		return err
	}
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func keepOwner(f *os.File, old fs.FileInfo) error {
	if old == nil {
		return nil
	}
	now, err := f.Stat()
	if err != nil {
		return err
	}
	want, have := old.Sys().(*syscall.Stat_t), now.Sys().(*syscall.Stat_t)
	if want.Uid == have.Uid && want.Gid == have.Gid {
		return nil
	}
	return f.Chown(int(want.Uid), int(want.Gid))
}

// sweep removes what an earlier write of the same file left behind when it was killed.
func sweep(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type().IsRegular() && pendingFor(filepath.Base(path), e.Name()) {
			if err := os.Remove(filepath.Join(filepath.Dir(path), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// pendingFor tells whether name is one that renameio gives to the unfinished file base: a
// dot, the name, and a random number of 63 bits, which practically never has fewer than 12 digits.
func pendingFor(base, name string) bool {
	number, ok := strings.CutPrefix(name, "."+base)
	return ok && len(number) >= 12 && strings.Trim(number, "0123456789") == ""
}

// makeDirs makes a folder and those above it, each with exactly this mode; what exists is left as it is.
func makeDirs(path string, mode fs.FileMode) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.IsDir(), errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s is in the way: it is not a directory", path)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(path)
	if err := makeDirs(parent, mode); err != nil {
		return err
	}
	if err := os.Mkdir(path, mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // made by another change at the same moment
		}
		return err
	}
	// The umask must not narrow what was asked for.
	if err := os.Chmod(path, mode); err != nil {
		return err
	}
	return syncDir(parent)
}

// syncDir makes the names in a folder survive a loss of power.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems cannot sync a folder and say so by EINVAL.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// explain drops the names of temporary files from an error and names the file system that is full or read-only.
func explain(path string, err error) error {
	if errors.Is(err, unix.EROFS) {
		return problem.New("", plain(path, err), "make it writable, for example: mount -o remount,rw "+mountOf(path))
	}
	return plain(path, err)
}

func plain(path string, err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("no space left on %s: %w", mountOf(path), err)
	case errors.As(err, &p) && pendingFor(filepath.Base(path), filepath.Base(p.Path)):
		return fmt.Errorf("%s %s: %w", p.Op, path, p.Err)
	case errors.As(err, &l):
		return fmt.Errorf("%s %s: %w", l.Op, path, l.Err)
	}
	return err
}
