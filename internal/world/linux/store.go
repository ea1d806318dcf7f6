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

// Store keeps the files of a journal in a folder that only root may enter. It holds a lock
// from its making to its Close, so that no two runs write one journal.
type Store struct {
	dir  string
	lock *os.File
}

// ErrLocked says that another run holds the journal.
var ErrLocked = errors.New("another kubeadm is at work on this machine")

// NewStore opens the journal in dir and takes its lock. The folder is made when something is first written.
// If another run has the lock, the error is ErrLocked and names its process.
func NewStore(dir string) (*Store, error) {
	f, err := takeLock(lockFile)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &Store{dir: dir}, nil // who may not lock may not change anything either, and is told so by preflight
	case errors.Is(err, ErrLocked):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("taking the lock of this machine: %w", err)
	}
	return &Store{dir: dir, lock: f}, nil
}

// takeLock opens and locks the file, which its last holder removes. A lock on a file that has
// been removed meanwhile excludes no other run, so it is taken again.
func takeLock(path string) (*os.File, error) {
	for {
		f, err := openLock(path)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			defer f.Close()
			if !errors.Is(err, unix.EWOULDBLOCK) {
				return nil, err
			}
			owner, _ := io.ReadAll(io.LimitReader(f, 32))
			return nil, fmt.Errorf("%w (process %s): wait for it to end", ErrLocked, strings.TrimSpace(string(owner)))
		}
		if !isFile(f, path) {
			_ = f.Close()
			continue
		}
		if err := errors.Join(f.Truncate(0), writeAt(f, fmt.Sprintln(os.Getpid()))); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}

// releaseLock removes the file before it gives the lock back, unless another file is there by now.
func releaseLock(f *os.File, path string) error {
	var err error
	if isFile(f, path) {
		err = os.Remove(path)
	}
	return errors.Join(err, f.Close())
}

// isFile reports whether the open file is the one at the path.
func isFile(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(open, there)
}

// lock is patient for a moment: a run that was killed has the lock until the kernel has cleared it away.
func lock(f *os.File) error {
	const tries, pause = 20, 50 * time.Millisecond
	for try := 1; ; try++ {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) || try == tries {
			return err
		}
		time.Sleep(pause)
	}
}

// lockFile is in memory only and not in dir: nothing may be written to the disk before the
// first change.
const lockFile = "/run/kubeadm.lock"

// openLock creates the directory too where it is missing, as in a root file system that was never booted.
func openLock(path string) (*os.File, error) {
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

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// Close gives the lock back.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	return releaseLock(s.lock, lockFile)
}

// Load reads a whole file.
func (s *Store) Load(name string) ([]byte, error) { return os.ReadFile(filepath.Join(s.dir, name)) }

// Append adds to a file; the data has reached the disk when it returns.
func (s *Store) Append(name string, data []byte) error {
	path := filepath.Join(s.dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = s.create(path)
	}
	if err != nil {
		return explain(path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = unix.Fdatasync(int(f.Fd()))
	}
	return explain(path, errors.Join(err, f.Close()))
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

// Replace writes a file anew as a whole, beside the old one at first.
func (s *Store) Replace(name string, data []byte) error {
	return writeFile(context.Background(), change.WriteFile{Path: filepath.Join(s.dir, name), Data: data, Mode: 0o600, Resumed: true})
}

// Clear removes the folder and all that is in it, and the one above it if nothing else is there.
func (s *Store) Clear() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(s.dir)) // fails where it holds anything, as it should
	return nil
}
