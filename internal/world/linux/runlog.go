//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/world/portable"
)

// RunLogDir is the directory of the log files of runs.
const RunLogDir = "/var/log/kubeadm"

// CreateRunLog creates the log file of a run of a command that began at that time: mode 0600, in a
// directory of mode 0700. It removes the oldest ones before.
func CreateRunLog(dir, command string, began time.Time) (*os.File, error) {
	name, err := portable.RunLogName(command, began)
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // it was only read
	st, err := fstat(d)
	if err != nil {
		return nil, err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return nil, fmt.Errorf("%s belongs to another user, or others may write to it", dir)
	}
	if err := removeOldRunLogs(d); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(int(d.Fd()), name,
		unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: filepath.Join(dir, name), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir, name)), nil
}

// removeOldRunLogs keeps the newest log files.
func removeOldRunLogs(dir *os.File) error {
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, name := range portable.OldRunLogs(entries) {
		if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil {
			return &fs.PathError{Op: "remove", Path: filepath.Join(dir.Name(), name), Err: err}
		}
	}
	return nil
}
