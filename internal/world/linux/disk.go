//go:build linux

package linux

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of SyncTimes.
const (
	syncSize  = 2 << 10 // bytes, about an entry of etcd's write-ahead log
	syncCount = 50
	syncLimit = 500 * time.Millisecond
)

// SyncTimes measures fdatasync(2) on a file that has no name in the directory, so that the kernel
// removes it even if this process is killed.
func (m Machine) SyncTimes(ctx context.Context, dir string) (times []time.Duration, err error) {
	f, err := openUnnamed(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data := make([]byte, syncSize)
	for begun := time.Now(); len(times) < syncCount && time.Since(begun) < syncLimit; {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if _, err := f.Write(data); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return nil, &os.PathError{Op: "fdatasync", Path: dir, Err: err}
		}
		times = append(times, time.Since(start))
	}
	return times, nil
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
