//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
)

// removePath deletes a file, a tree or the contents of a directory. It never enters a mount: mount
// points and the directories above them stay, and the error names them.
func removePath(c change.Remove) error {
	switch {
	case c.OnlyEmpty:
		return removeEmptyDir(c.Path)
	case c.Contents:
		return removeContents(c.Path)
	}
	p, err := resolvePathNoFollow(c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.close()
	if node.IsSystemDir(p.path) {
		return newSystemDirError(c.Path, p.path)
	}
	mount, err := mountID(p.dir)
	if err != nil {
		return err
	}
	return removeTree{mount: mount, path: p.path}.remove(p.dir, p.name)
}

func removeEmptyDir(path string) error {
	p, err := resolvePathNoFollow(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer p.close()
	e, err := p.openEntry()
	if err != nil || e == nil {
		return err
	}
	defer e.close()
	if e.st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	err = unix.Unlinkat(int(p.dir.Fd()), p.name, unix.AT_REMOVEDIR)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) ||
		errors.Is(err, unix.EEXIST) {
		return nil
	}
	return p.pathError("rmdir", err)
}

func removeContents(path string) error {
	d, real, err := openDir(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	if err := checkNotSystemDir(d, real, path); err != nil {
		return err
	}
	mount, err := mountID(d)
	if err != nil {
		return err
	}
	return removeTree{mount: mount, path: real}.empty(d)
}

// checkNotSystemDir returns an error for a directory of the operating system, also if it was
// opened through a symbolic link or a bind mount. named is the path in the configuration, for the
// error.
func checkNotSystemDir(d *os.File, real, named string) error {
	if node.IsSystemDir(real) {
		return newSystemDirError(named, real)
	}
	opened, err := d.Stat()
	if err != nil {
		return err
	}
	for _, dir := range node.SystemDirs() {
		if info, err := os.Stat(dir); err == nil && os.SameFile(opened, info) {
			return newSystemDirError(named, dir)
		}
	}
	return nil
}

func newMountPointError(path string) error {
	return fmt.Errorf("%s is a mount point and was not removed: unmount it and re-run the command", path)
}

func newSystemDirError(named, real string) error {
	if named == real {
		return fmt.Errorf("%s is %w", named, change.ErrSystemDirectory)
	}
	return fmt.Errorf("%s points to %s, %w", named, real, change.ErrSystemDirectory)
}

// mountID returns the ID of the mount that a directory is on.
func mountID(d *os.File) (uint64, error) {
	var s unix.Statx_t
	err := unix.Statx(int(d.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &s)
	if err == nil && s.Mask&unix.STATX_MNT_ID != 0 {
		return s.Mnt_id, nil
	}
	// Linux before 5.8 has no STATX_MNT_ID.
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", d.Fd()))
	if err != nil {
		return 0, fmt.Errorf("looking for mounts: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.ParseUint(strings.TrimSpace(id), 10, 64)
		}
	}
	return 0, fmt.Errorf("looking for mounts: the kernel does not report the mount of %s", d.Name())
}
