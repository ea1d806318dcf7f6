package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// Mounts lists mount points at and below dir, oldest first. They are spelled as below dir
// even where dir is a symbolic link.
func (m Machine) Mounts(_ context.Context, dir string) ([]string, error) {
	top, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	points, err := mountPoints(top)
	for i, p := range points {
		points[i] = filepath.Clean(dir) + strings.TrimPrefix(p, top)
	}
	return points, err
}

// mountPoints are the mount points at and below a path without symbolic links.
func mountPoints(path string) ([]string, error) {
	all, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	if err != nil {
		return nil, fmt.Errorf("reading the list of mounts: %w", err)
	}
	var points []string
	for _, m := range all {
		points = append(points, m.Mountpoint)
	}
	return points, nil
}

// unmount goes over the mounts below the folder again and again, newest first, for as long as
// that gets it further: a mount may have been moved below a newer one, which then is busy at first.
func unmount(ctx context.Context, c change.Unmount) error {
	flags, err := unmountFlags(c.Flags)
	if err != nil {
		return err
	}
	if err := guardMounts(c.Below); err != nil {
		return err
	}
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		points, err := Machine{}.Mounts(ctx, c.Below)
		if err != nil {
			return err
		}
		points = slices.DeleteFunc(points, func(p string) bool { return p == filepath.Clean(c.Below) })
		slices.Reverse(points)
		gone, err := unmountAll(points, flags)
		if gone == 0 {
			return err
		}
	}
}

// guardMounts refuses to unmount all that is below a directory of the operating system.
func guardMounts(path string) error {
	d, real, err := openDir(path, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return guard(d, real, path)
}

func unmountAll(points []string, flags int) (gone int, err error) {
	var errs []error
	for _, p := range points {
		err := unix.Unmount(p, flags)
		// The first call with MNT_EXPIRE only marks the mount; see umount2(2).
		if flags&unix.MNT_EXPIRE != 0 && errors.Is(err, unix.EAGAIN) {
			err = unix.Unmount(p, flags)
		}
		switch {
		case err == nil:
			gone++
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			// It went away with another one, as shared mounts do.
		default:
			errs = append(errs, fmt.Errorf("unmounting %s: %w", p, err))
		}
	}
	return gone, errors.Join(errs...)
}

func unmountFlags(names []string) (int, error) {
	flags := 0
	for _, name := range names {
		switch name {
		case "MNT_FORCE":
			flags |= unix.MNT_FORCE
		case "MNT_DETACH":
			flags |= unix.MNT_DETACH
		case "MNT_EXPIRE":
			flags |= unix.MNT_EXPIRE
		case "UMOUNT_NOFOLLOW":
			flags |= unix.UMOUNT_NOFOLLOW
		default:
			return 0, fmt.Errorf("%q is not a flag of umount2(2): use MNT_FORCE, MNT_DETACH, MNT_EXPIRE or UMOUNT_NOFOLLOW", name)
		}
	}
	return flags, nil
}

// mountOf is where the file system is mounted that holds a path, or would hold it.
func mountOf(path string) string {
	for ; path != "/" && path != "."; path = filepath.Dir(path) {
		here, err := os.Stat(path)
		if err != nil {
			continue
		}
		above, err := os.Stat(filepath.Dir(path))
		if err != nil || here.Sys().(*syscall.Stat_t).Dev != above.Sys().(*syscall.Stat_t).Dev {
			return path
		}
	}
	return path
}
