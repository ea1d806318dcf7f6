//go:build windows

package windows

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/windows"

	"kubeadm/internal/change"
	"kubeadm/internal/world/portable"
)

// ErrLocked means that another run holds the lock.
var ErrLocked = errors.New("another kubeadm is running on this machine")

// Store keeps the files of a journal in a directory that only Administrators can access. It holds a
// lock until Close, so that no two runs write to one journal.
type Store struct {
	dir  string
	lock *os.File
}

// NewStore opens the journal in dir and acquires its lock. The directory is created by the first
// write. If another run holds the lock, the error is ErrLocked with the ID of its process.
func NewStore(dir string) (*Store, error) {
	f, err := acquireLock()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &Store{dir: localPath(dir)}, nil // not elevated, which preflight reports
	case errors.Is(err, ErrLocked):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("acquiring the lock of this machine: %w", err)
	}
	return &Store{dir: localPath(dir), lock: f}, nil
}

// acquireLock creates a file in the directory of Windows, to which only Administrators can write, and
// no other process can open it for writing. Windows removes it when the process ends, however that ends.
func acquireLock() (*os.File, error) {
	dir, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "kubeadm.lock")
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	const attempts, pause = 20, 50 * time.Millisecond // a killed process may hold it for a moment
	for attempt := 1; ; attempt++ {
		h, err := windows.CreateFile(path, windows.GENERIC_WRITE|windows.DELETE,
			windows.FILE_SHARE_READ, nil, windows.CREATE_ALWAYS,
			windows.FILE_ATTRIBUTE_NORMAL|windows.FILE_FLAG_DELETE_ON_CLOSE, 0)
		if err == nil {
			f := os.NewFile(uintptr(h), name)
			_, err := fmt.Fprintln(f, os.Getpid())
			return f, err
		}
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
			return nil, &fs.PathError{Op: "create", Path: name, Err: err}
		}
		if attempt == attempts {
			return nil, fmt.Errorf("%w (process %s): wait for it to finish", ErrLocked, lockOwner(path))
		}
		time.Sleep(pause)
	}
}

func lockOwner(path *uint16) string {
	h, err := windows.CreateFile(path, windows.GENERIC_READ,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return "unknown"
	}
	f := os.NewFile(uintptr(h), "")
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	return strings.TrimSpace(string(text))
}

// Close releases the lock.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Load reads a whole file.
func (s *Store) Load(name string) ([]byte, error) { return os.ReadFile(filepath.Join(s.dir, name)) }

// Append appends to a file and flushes it.
func (s *Store) Append(name string, data []byte) error {
	path := filepath.Join(s.dir, name)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = createPrivate(path)
	}
	if err != nil {
		return explainWriteError(path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return explainWriteError(path, errors.Join(err, f.Close()))
}

// createPrivate creates a file and the directories above it that only Administrators can access.
func createPrivate(name string) (*os.File, error) {
	dir := filepath.Dir(name)
	if err := makeDirs(filepath.Dir(filepath.Dir(dir)), 0o755); err != nil {
		return nil, err
	}
	d, err := openDir(dir, 0o700)
	if err != nil {
		return nil, err
	}
	defer d.close()
	return createPrivateIn(d, filepath.Base(name))
}

func createPrivateIn(d *openedDir, name string) (*os.File, error) {
	access, err := newDescriptor(0o600, false)
	if err != nil {
		return nil, err
	}
	return createFile(d.at(name), access, windows.FILE_APPEND_DATA|windows.SYNCHRONIZE)
}

// Replace replaces a file atomically.
func (s *Store) Replace(name string, data []byte) error {
	return writeFile(change.WriteFile{Path: filepath.Join(s.dir, name), Data: data, Mode: 0o600,
		Secret: true, RemoveTemporary: true})
}

// Clear removes the directory of the journal, and the one above it if it is empty then.
func (s *Store) Clear() error {
	if err := removePath(change.Remove{Path: s.dir}); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(s.dir)) // fails unless it is empty
	return nil
}

// RunLogDir is the directory of the log files of runs.
const RunLogDir = "/var/log/kubeadm"

// CreateRunLog creates the log file of a run of a command that began at that time, which only
// Administrators can read. It removes the oldest ones before.
func CreateRunLog(dir, command string, began time.Time) (*os.File, error) {
	name, err := portable.RunLogName(command, began)
	if err != nil {
		return nil, err
	}
	dir = localPath(dir)
	if err := makeDirs(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	d, err := openDir(dir, 0o700)
	if err != nil {
		return nil, err
	}
	defer d.close()
	access, err := readAccess(d.handle())
	if err != nil {
		return nil, err
	}
	mode, uid, err := permissions(access, true)
	if err != nil {
		return nil, err
	}
	if uid != 0 || mode&0o022 != 0 {
		return nil, fmt.Errorf("%s belongs to another user, or others may write to it", dir)
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	for _, old := range portable.OldRunLogs(entries) {
		if err := os.Remove(d.at(old)); err != nil {
			return nil, err
		}
	}
	return createPrivateIn(d, name)
}
