//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another run holds the lock.
var ErrLocked = errors.New("another kubeadm is running on this machine")

// acquireLock opens and locks the file. The previous holder may remove the file meanwhile; a lock
// on a removed file excludes no other run, so the file is opened and locked again.
func acquireLock(path string) (*os.File, error) {
	for {
		// In a root file system that was never booted the directory does not exist.
		if err := makeDirs(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flockWithRetry(f); err != nil {
			defer f.Close()
			if !errors.Is(err, unix.EWOULDBLOCK) {
				return nil, err
			}
			owner, _ := io.ReadAll(io.LimitReader(f, 32))
			return nil, fmt.Errorf("%w (process %s): wait for it to finish", ErrLocked,
				strings.TrimSpace(string(owner)))
		}
		if !isSameFile(f, path) {
			_ = f.Close()
			continue
		}
		err = f.Truncate(0)
		if err == nil {
			_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}

// releaseLock removes the file, unless another one has replaced it, and then releases the lock.
func releaseLock(f *os.File, path string) error {
	var err error
	if isSameFile(f, path) {
		err = os.Remove(path)
	}
	return errors.Join(err, f.Close())
}

// isSameFile reports whether the path still names the open file.
func isSameFile(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	current, err := os.Lstat(path)
	return err == nil && os.SameFile(open, current)
}

// flockWithRetry retries for a second: a process that was killed holds its lock until the kernel
// has closed its files.
func flockWithRetry(f *os.File) error {
	const attempts, pause = 20, 50 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || attempt == attempts {
			return err
		}
		time.Sleep(pause)
	}
}

// lockFile is in a tmpfs and not in the journal's directory: nothing may be written to the disk
// before the first change.
const lockFile = "/run/kubeadm.lock"
