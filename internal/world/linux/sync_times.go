//go:build linux

package linux

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/world/portable"
)

// SyncTimes measures fdatasync(2) on a file that has no name in the directory, so that the kernel
// removes it even if this process is killed.
func (m Machine) SyncTimes(ctx context.Context, dir string) (times []time.Duration, err error) {
	f, err := openUnnamed(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return portable.SyncTimes(ctx, f, func() error {
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return &os.PathError{Op: "fdatasync", Path: dir, Err: err}
		}
		return nil
	})
}

// openUnnamed opens a new file without a name. On a file system that has no such files it creates one
// and removes its name at once.
func openUnnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), filepath.Join(dir, "unnamed")), nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	f, err := os.CreateTemp(dir, ".kubeadm-sync-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
