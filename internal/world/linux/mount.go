//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// Mounts lists the mount points at and below dir, oldest first. All paths begin with dir, even
// if it is a symbolic link.
func (m Machine) Mounts(_ context.Context, dir string) ([]string, error) {
	top, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := mountinfo.GetMounts(mountinfo.PrefixFilter(top))
	if err != nil {
		return nil, fmt.Errorf("reading the list of mounts: %w", err)
	}
	var points []string
	for _, m := range all {
		points = append(points, filepath.Clean(dir)+strings.TrimPrefix(m.Mountpoint, top))
	}
	return points, nil
}

// unmountBelow unmounts what the change matches, newest mounts first, and repeats this until
// a pass unmounts nothing: a mount may have been moved below a newer one, which is busy in the
// first pass.
func unmountBelow(ctx context.Context, c change.Unmount) error {
	flags := 0
	for _, name := range c.Flags {
		flag, ok := map[string]int{"MNT_FORCE": unix.MNT_FORCE, "MNT_DETACH": unix.MNT_DETACH,
			"MNT_EXPIRE": unix.MNT_EXPIRE, "UMOUNT_NOFOLLOW": unix.UMOUNT_NOFOLLOW}[name]
		if !ok {
			return fmt.Errorf(
				"%q is not a flag of umount2(2): use MNT_FORCE, MNT_DETACH, MNT_EXPIRE or UMOUNT_NOFOLLOW", name)
		}
		flags |= flag
	}
	if !c.Itself {
		d, real, err := openDir(c.Dir, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := errors.Join(checkNotSystemDir(d, real, c.Dir), d.Close()); err != nil {
			return err
		}
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		points, err := Machine{}.Mounts(ctx, c.Dir)
		if err != nil {
			return err
		}
		points = slices.DeleteFunc(points, func(p string) bool { return !c.Matches(p) })
		slices.Reverse(points)
		count, err := unmountAll(points, flags)
		if count == 0 {
			return err
		}
	}
}

// unmountAll returns how many of the mount points it unmounted.
func unmountAll(points []string, flags int) (count int, err error) {
	var errs []error
	for _, p := range points {
		err := unix.Unmount(p, flags)
		// The first call with MNT_EXPIRE only marks the mount; see umount2(2).
		if flags&unix.MNT_EXPIRE != 0 && errors.Is(err, unix.EAGAIN) {
			err = unix.Unmount(p, flags)
		}
		switch {
		case err == nil:
			count++
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			// It was unmounted together with another one, as shared mounts are.
		default:
			errs = append(errs, fmt.Errorf("unmounting %s: %w", p, err))
		}
	}
	return count, errors.Join(errs...)
}
