package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// remove deletes a file, a tree or the contents of a folder. It never enters a mount: what
// is mounted there is left alone, with everything above it, and named in the error.
func remove(c change.Remove) error {
	if c.OnlyEmpty {
		return removeEmpty(c.Path)
	}
	top, err := realPath(c.Path, c.Contents)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mounts, err := mountPoints(top)
	if err != nil {
		return err
	}
	t := tree{mounts}
	if c.Contents {
		return t.empty(top)
	}
	return errors.Join(t.remove(top), sweepIfPossible(top))
}

func removeEmpty(path string) error {
	err := unix.Rmdir(path)
	if err == nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	return &fs.PathError{Op: "rmdir", Path: path, Err: err}
}

// realPath is the path without symbolic links, so that it can be compared with mount
// points; the last name is followed only where the folder behind it is meant.
func realPath(path string, follow bool) (string, error) {
	if follow {
		return filepath.EvalSymlinks(path)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	return filepath.Join(parent, filepath.Base(path)), err
}

func sweepIfPossible(path string) error {
	if err := sweep(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// tree removes files around mount points.
type tree struct{ mounts []string }

func (t tree) remove(path string) error {
	switch {
	case slices.Contains(t.mounts, path):
		return fmt.Errorf("%s is a mount point and was left alone: unmount it and run this again", path)
	case t.holdsMount(path):
		return t.empty(path)
	}
	return os.RemoveAll(path)
}

func (t tree) empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, t.remove(filepath.Join(dir, e.Name())))
	}
	return errors.Join(errs...)
}

func (t tree) holdsMount(path string) bool {
	return slices.ContainsFunc(t.mounts, func(m string) bool { return strings.HasPrefix(m, path+"/") })
}
