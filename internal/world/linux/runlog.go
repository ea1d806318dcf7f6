package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// RunLogDir is the directory of the log files of runs.
const RunLogDir = "/var/log/kubeadm"

// runLogsKept is how many log files are kept, with the new one.
const runLogsKept = 20

// runLogForm is the name of a log file: the command and the time at which it began. Nothing else in
// the directory is ever removed.
var runLogForm = regexp.MustCompile(`^[a-z]+(?:[-.][a-z]+)*-([0-9]{8}T[0-9]{6}\.[0-9]{3}Z)\.log$`)

// CreateRunLog creates the log file of a run of a command that began at that time: mode 0600, in a
// directory of mode 0700. It removes the oldest ones before.
func CreateRunLog(dir, command string, began time.Time) (*os.File, error) {
	name := fmt.Sprintf("%s-%s.log", strings.ReplaceAll(command, " ", "-"),
		began.UTC().Format("20060102T150405.000Z"))
	if !runLogForm.MatchString(name) {
		return nil, fmt.Errorf("%q is not a name of a log file", name)
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
	if err := removeOldRunLogs(d, runLogsKept-1); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(int(d.Fd()), name,
		unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: filepath.Join(dir, name), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(dir, name)), nil
}

// removeOldRunLogs keeps that many of the newest log files.
func removeOldRunLogs(dir *os.File, keep int) error {
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && runLogForm.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	began := func(name string) string { return runLogForm.FindStringSubmatch(name)[1] }
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(began(a), began(b)) })
	for _, name := range names[:max(0, len(names)-keep)] {
		if err := unix.Unlinkat(int(dir.Fd()), name, 0); err != nil {
			return &fs.PathError{Op: "remove", Path: filepath.Join(dir.Name(), name), Err: err}
		}
	}
	return nil
}
