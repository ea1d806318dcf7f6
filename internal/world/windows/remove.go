//go:build windows

package windows

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
)

// removePath deletes a file, a tree or the contents of a directory. It never enters a symbolic link
// or a junction below the path: the link itself is removed.
func removePath(c change.Remove) error {
	name := localPath(c.Path)
	info, err := os.Lstat(name)
	if errors.Is(explainParent(err), fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return explainParent(err)
	}
	switch {
	case c.OnlyEmpty:
		return removeEmptyDir(name, info)
	case c.Contents:
		return removeContents(name)
	}
	if err := checkNotSystemDir(name, name); err != nil {
		return err
	}
	return removeTree(name)
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

func removeContents(name string) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	if err := checkNotSystemDir(name, real); err != nil {
		return err
	}
	entries, err := os.ReadDir(real)
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		failed = append(failed, removeTree(filepath.Join(real, e.Name())))
	}
	return errors.Join(failed...)
}

// maxFailures is how many files that cannot be removed are named.
const maxFailures = 20

// removeTree removes a file, or a directory with all that is in it. What cannot be removed does not
// keep the rest from being removed. os.RemoveAll depends on a call that Wine does not have.
func removeTree(name string) error {
	var failed []error
	kept := map[string]bool{}
	keep := func(path string, err error) {
		kept[path] = true
		if !errors.Is(err, windows.ERROR_DIR_NOT_EMPTY) && len(failed) < maxFailures {
			failed = append(failed, err)
		}
	}
	remove := func(path string) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			keep(path, err)
		}
	}
	if info, err := os.Lstat(name); err != nil || !info.IsDir() {
		remove(name)
		return errors.Join(failed...)
	}
	for dirs := []string{name}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			keep(dir, err)
		}
		isLeaf := true
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			switch {
			case kept[path]:
			case e.IsDir():
				dirs, isLeaf = append(dirs, path), false
			default:
				remove(path)
			}
		}
		if isLeaf {
			dirs = dirs[:len(dirs)-1]
			remove(dir)
		}
	}
	return errors.Join(failed...)
}

// checkNotSystemDir returns an error for a directory of Windows, or one that several programs use.
func checkNotSystemDir(named, real string) error {
	switch {
	case !node.Windows(systemDrive()).IsSystemDir(real):
		return nil
	case named == real:
		return fmt.Errorf("%s is %w", named, change.ErrSystemDirectory)
	}
	return fmt.Errorf("%s points to %s, %w", named, real, change.ErrSystemDirectory)
}
