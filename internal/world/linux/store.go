//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// Store keeps the files of a journal in a directory that only root can access. It holds a lock
// until Close, so that no two runs write to one journal.
type Store struct {
	dir  string
	lock *os.File
}

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
	return writeFile(context.Background(),
		change.WriteFile{Path: filepath.Join(s.dir, name), Data: data, Mode: 0o600,
			RemoveTemporary: true})
}

// Clear removes the directory of the journal, and the one above it if it is empty then.
func (s *Store) Clear() error {
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(s.dir)) // fails unless it is empty
	return nil
}
