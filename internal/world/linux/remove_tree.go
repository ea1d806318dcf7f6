//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// removeTree removes what is below a path on one mount only. However deep the tree is, it holds three
// descriptors, and of each level the name and a few entries: whoever may write a Pod's volume decides how deep it is.
type removeTree struct {
	mount uint64
	path  string // for errors

	levels   []treeLevel // from the topmost directory to the current one
	dir      *os.File    // the current directory
	failures []error
}

// treeLevel is a directory that is being emptied.
type treeLevel struct {
	name     string // in the directory above
	dev, ino uint64
	pending  []string        // entries that were read and not looked at yet
	kept     map[string]bool // entries that could not be removed
	attempts map[string]int  // how often a directory was emptied and something new was in it
	batches  int
}

// Limits of one directory. Another process may go on writing.
const (
	entryBatch      = 64
	maxBatches      = 1 << 18
	maxKept         = 100
	maxEmptied      = 3
	maxTreeFailures = 100
)

// remove deletes the name in the directory, with all that is below it.
func (t removeTree) remove(dir *os.File, name string) error {
	path := func() string { return t.path }
	isDir, err := unlink(dir, name, path)
	if err != nil || !isDir {
		return err
	}
	d, err := t.open(dir, name, path)
	if err != nil {
		return err
	}
	defer d.Close()
	// Another process may still write here.
	for range maxEmptied {
		if err := t.empty(d); err != nil {
			return err
		}
		err = unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR)
		if !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
	}
	return newRmdirError(err, t.path)
}

// unlink removes a name that is not a directory, and reports whether it is one. The path is for errors.
func unlink(dir *os.File, name string, path func() string) (isDir bool, err error) {
	err = unix.Unlinkat(int(dir.Fd()), name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return false, nil
	case errors.Is(err, unix.EBUSY):
		return false, newMountPointError(path())
	case errors.Is(err, unix.EISDIR):
		return true, nil
	}
	return false, &fs.PathError{Op: "remove", Path: path(), Err: err}
}

// open opens a directory that is not a mount point.
func (t *removeTree) open(dir *os.File, name string, path func() string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name,
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path(), Err: err}
	}
	d := os.NewFile(uintptr(fd), name)
	mount, err := mountID(d)
	if err == nil && mount != t.mount {
		err = newMountPointError(path())
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

func newRmdirError(err error, path string) error {
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return newMountPointError(path)
	}
	return &fs.PathError{Op: "rmdir", Path: path, Err: err}
}

// empty removes what is in the directory.
func (t removeTree) empty(top *os.File) error {
	fd, err := unix.Openat(int(top.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: t.path, Err: err}
	}
	t.dir = os.NewFile(uintptr(fd), t.path)
	defer func() { _ = t.dir.Close() }()
	if err := t.push(""); err != nil {
		return err
	}
	for len(t.levels) > 0 && len(t.failures) < maxTreeFailures {
		name, err := t.next()
		if err == nil && name == "" {
			if len(t.levels) == 1 {
				break
			}
			err = t.ascend()
		} else if err == nil {
			err = t.removeEntry(name)
		}
		if err != nil {
			return errors.Join(append(t.failures, err)...)
		}
	}
	if len(t.failures) >= maxTreeFailures {
		t.failures = append(t.failures, fmt.Errorf("more of %s could not be removed", t.path))
	}
	return errors.Join(t.failures...)
}

// push makes the opened directory the current level.
func (t *removeTree) push(name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(t.dir.Fd()), &st); err != nil {
		return &fs.PathError{Op: "stat", Path: t.pathOf(name), Err: err}
	}
	t.levels = append(t.levels, treeLevel{name: name, dev: st.Dev, ino: st.Ino})
	return nil
}

// next returns an entry of the current directory that was not looked at; empty if there is none.
func (t *removeTree) next() (string, error) {
	l := &t.levels[len(t.levels)-1]
	for len(l.pending) == 0 {
		if l.batches++; l.batches > maxBatches || len(l.kept) >= maxKept {
			return "", nil
		}
		// What was read before is gone, but for what is kept.
		if _, err := t.dir.Seek(0, 0); err != nil {
			return "", &fs.PathError{Op: "read", Path: t.pathOf(""), Err: err}
		}
		names, err := t.dir.Readdirnames(entryBatch + len(l.kept))
		if len(names) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return "", err
		}
		for _, name := range names {
			if !l.kept[name] {
				l.pending = append(l.pending, name)
			}
		}
		if len(l.pending) == 0 {
			return "", nil
		}
	}
	name := l.pending[0]
	l.pending = l.pending[1:]
	return name, nil
}

// removeEntry removes an entry of the current directory. A directory that is not empty becomes the
// current one.
func (t *removeTree) removeEntry(name string) error {
	path := func() string { return t.pathOf(name) }
	isDir, err := unlink(t.dir, name, path)
	if err == nil && (!isDir || unix.Unlinkat(int(t.dir.Fd()), name, unix.AT_REMOVEDIR) == nil) {
		return nil
	}
	var child *os.File
	if err == nil {
		child, err = t.open(t.dir, name, path)
	}
	if err != nil {
		t.keep(name, err)
		return nil
	}
	_ = t.dir.Close()
	t.dir = child
	return t.push(name)
}

// ascend leaves the current directory, and removes it if it is empty now.
func (t *removeTree) ascend() error {
	done := t.levels[len(t.levels)-1]
	t.levels = t.levels[:len(t.levels)-1]
	path := func() string { return t.pathOf(done.name) }
	above := &t.levels[len(t.levels)-1]
	fd, err := unix.Openat(int(t.dir.Fd()), "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path(), Err: err}
	}
	_ = t.dir.Close()
	t.dir = os.NewFile(uintptr(fd), above.name)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path(), Err: err}
	}
	if st.Dev != above.dev || st.Ino != above.ino {
		return fmt.Errorf("%s was moved to another directory while it was being removed: re-run the command", path())
	}
	if len(done.kept) > 0 {
		t.keep(done.name, nil)
		return nil
	}
	err = unix.Unlinkat(fd, done.name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) {
		if above.attempts == nil {
			above.attempts = map[string]int{}
		}
		if above.attempts[done.name]++; above.attempts[done.name] < maxEmptied {
			above.pending = append(above.pending, done.name)
			return nil
		}
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		t.keep(done.name, newRmdirError(err, path()))
	}
	return nil
}

// keep remembers that an entry of the current directory could not be removed.
func (t *removeTree) keep(name string, err error) {
	if err != nil {
		t.failures = append(t.failures, err)
	}
	l := &t.levels[len(t.levels)-1]
	if l.kept == nil {
		l.kept = map[string]bool{}
	}
	l.kept[name] = true
}

// pathOf is the path of an entry of the current directory, or of the directory.
func (t *removeTree) pathOf(name string) string {
	parts := []string{t.path}
	for _, l := range t.levels {
		parts = append(parts, l.name)
	}
	return filepath.Join(append(parts, name)...)
}
