//go:build windows

package windows

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
)

// writeFile replaces a file atomically: it writes a temporary file, flushes and renames it. A
// symbolic link stays, and its target is replaced or created. An existing file keeps its access
// control list, unless the new contents are secret.
func writeFile(c change.WriteFile) error {
	return writeFileAfter(context.Background(), c, func() error { return nil })
}

// writeFileAfter is writeFile. It calls ready when the new contents are in the temporary file; the
// file stays as it was if that fails.
func writeFileAfter(_ context.Context, c change.WriteFile, ready func() error) error {
	if err := c.CheckSecret(); err != nil {
		return err
	}
	mode := fs.FileMode(0o755)
	if c.Output {
		mode = 0
	}
	dir, base, err := openTarget(localPath(c.Path), mode)
	if err != nil {
		return err
	}
	defer dir.close()
	name := dir.at(base)
	if c.RemoveTemporary {
		if err := removeTemporaryFiles(name); err != nil {
			return err
		}
	}
	access, err := newDescriptor(c.Mode, false)
	if err != nil {
		return err
	}
	old, err := os.Lstat(name)
	switch {
	case err == nil && !old.Mode().IsRegular():
		return fmt.Errorf("%s exists, but it is not a regular file", name)
	case err == nil && !c.Secret:
		// Without the owner: this process may be unable to create files of other users.
		access, err = windows.GetNamedSecurityInfo(name, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
		if err != nil {
			return &fs.PathError{Op: "reading the access control list", Path: name, Err: err}
		}
	}
	return explainWriteError(name, replaceFile(name, access, func(f *os.File) error {
		if _, err := f.Write(c.Data); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		return ready()
	}))
}

// replaceFile renames a new file with that access to name after write has written and flushed it.
func replaceFile(name string, access *windows.SECURITY_DESCRIPTOR, write func(*os.File) error) error {
	temporary := filepath.Join(filepath.Dir(name), change.TemporaryName(filepath.Base(name), rand.Text()))
	f, err := createFile(temporary, access, windows.GENERIC_WRITE)
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
	if err == nil {
		err = rename(temporary, name)
	}
	if err != nil {
		_ = os.Remove(temporary) // the first error matters
	}
	return err
}

// createFile creates a file that does not exist, with that access from its first byte.
func createFile(name string, access *windows.SECURITY_DESCRIPTOR, rights uint32) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	h, err := windows.CreateFile(path, rights, windows.FILE_SHARE_READ|windows.FILE_SHARE_DELETE,
		newAttributes(access), windows.CREATE_NEW, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, explainParent(&fs.PathError{Op: "create", Path: name, Err: err})
	}
	return os.NewFile(uintptr(h), filepath.ToSlash(name)), nil // such as that of a log, for messages
}

// How long another program, such as a virus scanner, may have a file open that is read or replaced.
const (
	sharingLimit = 5 * time.Second
	sharingPause = 20 * time.Millisecond
)

// rename replaces a file, and returns when the directory is on the disk. Windows does not replace a
// file that another program has open, nor one with the attribute that makes it read-only.
func rename(from, to string) error {
	source, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	target, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	for begun := time.Now(); ; time.Sleep(sharingPause) {
		err = windows.MoveFileEx(source, target,
			windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
		isOpen := errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
			errors.Is(err, windows.ERROR_ACCESS_DENIED)
		switch {
		case err == nil:
			return nil
		case isOpen && clearReadOnly(target):
		case !isOpen || time.Since(begun) > sharingLimit:
			return &fs.PathError{Op: "rename", Path: to, Err: err}
		}
	}
}

// clearReadOnly reports whether a file had the attribute that makes it read-only, and has it no more.
func clearReadOnly(name *uint16) bool {
	attributes, err := windows.GetFileAttributes(name)
	return err == nil && attributes&windows.FILE_ATTRIBUTE_READONLY != 0 &&
		attributes&windows.FILE_ATTRIBUTE_DIRECTORY == 0 &&
		windows.SetFileAttributes(name, attributes&^windows.FILE_ATTRIBUTE_READONLY) == nil
}

// makeLink creates a symbolic link under a temporary name and renames it.
func makeLink(c change.MakeLink) error {
	dir, base, err := openParent(localPath(c.Path), 0o755)
	if err != nil {
		return err
	}
	defer dir.close()
	name := dir.at(base)
	old, err := os.Lstat(name)
	if err == nil && old.Mode().Type() != fs.ModeSymlink && !old.Mode().IsRegular() {
		return fmt.Errorf("%s exists, but it is neither a link nor a regular file", name)
	}
	temporary := filepath.Join(filepath.Dir(name), change.TemporaryName(filepath.Base(name), rand.Text()))
	if err := os.Symlink(filepath.FromSlash(c.To), temporary); err != nil {
		return err
	}
	if err := rename(temporary, name); err != nil {
		_ = os.Remove(temporary) // the first error matters
		return err
	}
	return nil
}

// removeTemporaryFiles removes the temporary files of earlier writes that were killed.
func removeTemporaryFiles(name string) error {
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !change.IsTemporaryName(filepath.Base(name), e.Name()) {
			continue
		}
		err := os.Remove(filepath.Join(filepath.Dir(name), e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// WriteStream atomically creates or replaces a private file with what write writes, without keeping
// it in memory. It gets its name after write has returned nil.
func (m Machine) WriteStream(name string, write func(to io.ReadWriteSeeker) error) error {
	dir, base, err := openParent(localPath(name), 0o700)
	if err != nil {
		return err
	}
	defer dir.close()
	name = dir.at(base)
	if old, err := os.Lstat(name); err == nil && !old.Mode().IsRegular() {
		return fmt.Errorf("%s exists, but it is not a regular file", name)
	}
	if err := removeTemporaryFiles(name); err != nil {
		return err
	}
	access, err := newDescriptor(0o600, false)
	if err != nil {
		return err
	}
	return explainWriteError(name, replaceFile(name, access, func(f *os.File) error {
		if err := write(f); err != nil {
			return err
		}
		return f.Sync()
	}))
}

// WithUnnamedFile is not supported: only control plane nodes save archives.
func (m Machine) WithUnnamedFile(string, func(f io.ReadWriteSeeker) error) error {
	return errors.ErrUnsupported
}

// FreeSpace returns the free bytes on the drive of a path, which need not exist yet.
func (m Machine) FreeSpace(name string) (uint64, error) {
	drive := filepath.VolumeName(localPath(name)) + `\`
	path, err := windows.UTF16PtrFromString(drive)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, &fs.PathError{Op: "reading the free space", Path: drive, Err: err}
	}
	return free, nil
}

// explainWriteError names the drive that is full.
func explainWriteError(name string, err error) error {
	if errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) {
		return problem.New(fmt.Errorf("no space left on drive %s: %w", filepath.VolumeName(name), err),
			"free some space there")
	}
	return err
}
