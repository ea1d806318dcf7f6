//go:build windows

package windows

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
)

// removePath deletes a file, a tree or the contents of a directory. It never enters a symbolic link
// or a junction below the path: the link itself is removed.
func removePath(c change.Remove) error {
	name := localPath(c.Path)
	if c.Contents {
		d, err := openDir(name, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer d.close()
		if err := checkNotSystemDir(name, d.handle()); err != nil {
			return err
		}
		return removeContents(d.path)
	}
	d, base, err := openParent(name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.close()
	info, err := os.Lstat(d.at(base))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case c.OnlyEmpty:
		return removeEmptyDir(d.at(base), info)
	}
	h, err := openEntry(d.at(base))
	if err == nil {
		err = checkNotSystemDir(name, h)
		_ = windows.CloseHandle(h) // opened for reading only
	}
	if errors.Is(err, change.ErrSystemDirectory) { // otherwise removing it says what is wrong
		return err
	}
	return removeTree(d.at(base))
}

func removeEmptyDir(name string, info fs.FileInfo) error {
	if info.Mode().Type() == fs.ModeSymlink {
		return nil
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "rmdir", Path: name, Err: errors.New("it is not a directory")}
	}
	err := os.Remove(name)
	if errors.Is(err, windows.ERROR_DIR_NOT_EMPTY) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeContents removes what is in a directory that is open.
func removeContents(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		failed = append(failed, removeTree(filepath.Join(dir, e.Name())))
	}
	return errors.Join(failed...)
}

// maxFailures is how many files that cannot be removed are named.
const maxFailures = 20

// removeTree removes a file, or a directory with all that is in it. What cannot be removed does not
// keep the rest from being removed. Each directory is open until it is empty, so that it cannot be
// exchanged for a link meanwhile. os.RemoveAll depends on a call that Wine does not have.
func removeTree(name string) error {
	type level struct {
		dir   string
		h     windows.Handle
		below []string // directories to empty
	}
	var failed []error
	keep := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, windows.ERROR_DIR_NOT_EMPTY) &&
			len(failed) < maxFailures {
			failed = append(failed, err)
		}
	}
	var levels []level
	enter := func(dir string) {
		h, err := openEntry(dir)
		if err != nil {
			keep(err)
			return
		}
		attributes, err := attributesOf(h)
		if err != nil || attributes&windows.FILE_ATTRIBUTE_DIRECTORY == 0 ||
			attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
			keep(errors.Join(err, windows.CloseHandle(h)))
			keep(os.Remove(dir))
			return
		}
		l := level{dir: dir, h: h}
		entries, err := os.ReadDir(dir)
		keep(err)
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if e.IsDir() {
				l.below = append(l.below, path)
			} else {
				keep(os.Remove(path))
			}
		}
		levels = append(levels, l)
	}
	for enter(name); len(levels) > 0; {
		l := &levels[len(levels)-1]
		if last := len(l.below) - 1; last >= 0 {
			next := l.below[last]
			l.below = l.below[:last]
			enter(next)
			continue
		}
		dir := l.dir
		keep(windows.CloseHandle(l.h))
		levels = levels[:len(levels)-1]
		keep(os.Remove(dir))
	}
	return errors.Join(failed...)
}

// checkNotSystemDir returns an error for a directory of Windows, or one that several programs use.
// named is the path in the configuration, h what is open there.
func checkNotSystemDir(named string, h windows.Handle) error {
	real, err := finalPath(h)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", named, err)
	case !node.Windows(systemDrive()).IsSystemDir(real):
		return nil
	case strings.EqualFold(named, real):
		return fmt.Errorf("%s is %w", named, change.ErrSystemDirectory)
	}
	return fmt.Errorf("%s points to %s, %w", named, real, change.ErrSystemDirectory)
}
