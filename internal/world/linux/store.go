package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// Store keeps the files of a journal in a directory that only root can access. It holds a lock
// until Close, so that no two runs write to one journal.
type Store struct {
	dir  string
	lock *os.File
}

// ErrLocked means that another run holds the lock.
var ErrLocked = errors.New("another kubeadm is running on this machine")

// NewStore opens the journal in dir and acquires its lock. The directory is created by the first
// write. If another run holds the lock, the error is ErrLocked with the ID of its process.
func NewStore(dir string) (*Store, error) {
	f, err := acquireLock(lockFile)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &Store{dir: dir}, nil // without root privileges, which preflight reports
	case errors.Is(err, ErrLocked):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("acquiring the lock of this machine: %w", err)
	}
	return &Store{dir: dir, lock: f}, nil
}

// acquireLock opens and locks the file. The previous holder may remove the file meanwhile; a lock
// on a removed file excludes no other run, so the file is opened and locked again.
func acquireLock(path string) (*os.File, error) {
	for {
		f, err := openLockFile(path)
		if err != nil {
			return nil, err
		}
		if err := flockWithRetry(f); err != nil {
			defer f.Close()
			if !errors.Is(err, unix.EWOULDBLOCK) {
				return nil, err
			}
			owner, _ := io.ReadAll(io.LimitReader(f, 32))
			return nil, fmt.Errorf("%w (process %s): wait for it to finish", ErrLocked, strings.TrimSpace(string(owner)))
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

// openLockFile creates a missing directory too, as in a root file system that was never booted.
func openLockFile(path string) (*os.File, error) {
	open := func() (*os.File, error) {
		return os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	}
	f, err := open()
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := makeDirs(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return open()
}

// Close releases the lock.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	return releaseLock(s.lock, lockFile)
}

// Load reads a whole file.
func (s *Store) Load(name string) ([]byte, error) { return os.ReadFile(filepath.Join(s.dir, name)) }

// Append appends to a file and syncs it.
func (s *Store) Append(name string, data []byte) error {
	path := filepath.Join(s.dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = s.create(path)
	}
	if err != nil {
		return explainWriteError(path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = unix.Fdatasync(int(f.Fd()))
	}
	return explainWriteError(path, errors.Join(err, f.Close()))
}

func (s *Store) create(path string) (*os.File, error) {
	parent := filepath.Dir(s.dir)
	if err := makeDirs(filepath.Dir(parent), 0o755); err != nil {
		return nil, err
	}
	for _, dir := range []string{parent, s.dir} {
		if err := makeDirs(dir, 0o700); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	d, err := os.Open(s.dir)
	if err == nil {
		err = errors.Join(syncDir(d), d.Close())
	}
	return f, err
}

// Replace replaces a file atomically.
func (s *Store) Replace(name string, data []byte) error {
	return writeFile(context.Background(), change.WriteFile{Path: filepath.Join(s.dir, name), Data: data, Mode: 0o600, Resumed: true})
}

// Clear removes the directory of the journal, and the one above it if it is empty then.
func (s *Store) Clear() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(s.dir)) // fails unless it is empty
	return nil
}
