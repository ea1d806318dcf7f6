//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"

	"kubeadm/internal/state"
	"kubeadm/internal/world/portable"
)

// ReadFile reads a file of at most 16 MiB.
func (m Machine) ReadFile(_ context.Context, name string) ([]byte, error) {
	f, err := openFile(localPath(name), shareAll, 0)
	if err != nil {
		return nil, explainParent(err)
	}
	defer f.Close()
	return portable.ReadLimited(f)
}

// OpenFile opens a regular file of any size. Until it is closed, no program can change or replace it.
func (m Machine) OpenFile(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := openFile(localPath(name), windows.FILE_SHARE_READ, 0)
	if err != nil {
		return nil, explainParent(err) // not an interface around a nil *os.File
	}
	return f, nil
}

// OpenedPath is the path of a file that OpenFile or WriteStream has opened: it stays that of this file.
func (m Machine) OpenedPath(f any) string {
	if opened, ok := f.(*os.File); ok {
		return opened.Name()
	}
	return ""
}

// shareAll lets others change, replace and remove a file that is open.
const shareAll = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE

// openFile opens a file for reading. It waits a moment for a program that has the file alone. Names
// such as NUL, CON and COM1 are devices in every directory, and no files.
func openFile(name string, share, flags uint32) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var h windows.Handle
	for begun := time.Now(); ; time.Sleep(sharingPause) {
		h, err = windows.CreateFile(path, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING,
			windows.FILE_ATTRIBUTE_NORMAL|flags, 0)
		if !errors.Is(err, windows.ERROR_SHARING_VIOLATION) || time.Since(begun) > sharingLimit {
			break
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(h), name)
	kind, err := windows.GetFileType(h)
	if err == nil && kind != windows.FILE_TYPE_DISK {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		_ = f.Close() // the first error matters
		return nil, err
	}
	return f, nil
}

// ReadPrivate reads a file that only Administrators, SYSTEM and this user can read or change, in a
// directory that only these can change. Neither can be exchanged between the checks and the read.
func (m Machine) ReadPrivate(_ context.Context, name string) ([]byte, error) {
	dir, base, err := openParent(localPath(name), 0)
	if err != nil {
		return nil, err
	}
	defer dir.close()
	f, err := openFile(dir.at(base), windows.FILE_SHARE_READ, windows.FILE_FLAG_OPEN_REPARSE_POINT)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := windows.Handle(f.Fd())
	attributes, err := attributesOf(h)
	if err != nil {
		return nil, err
	}
	if attributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0 {
		return nil, fmt.Errorf("%s is a symbolic link", filepath.ToSlash(f.Name()))
	}
	for _, c := range []struct {
		of   windows.Handle
		info state.FileInfo
	}{
		{dir.handle(), state.FileInfo{Path: filepath.ToSlash(dir.path), Mode: fs.ModeDir}},
		{h, state.FileInfo{Path: filepath.ToSlash(f.Name())}},
	} {
		d, err := readAccess(c.of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.info.Path, err)
		}
		mode, uid, err := permissions(d, c.info.Mode.IsDir())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.info.Path, err)
		}
		c.info.Mode, c.info.UID = c.info.Mode|mode, uid
		if err := state.CheckPrivate(c.info, 0); err != nil {
			return nil, err
		}
	}
	return portable.ReadLimited(f)
}

// Tail returns the last bytes of a file, at most limit.
func (m Machine) Tail(name string, limit int64) ([]byte, error) {
	return m.Machine.Tail(localPath(name), limit)
}

// Stat describes a file or directory. It follows symbolic links.
func (m Machine) Stat(_ context.Context, name string) (state.FileInfo, error) {
	info, err := os.Stat(localPath(name))
	if err != nil {
		return state.FileInfo{}, explainParent(err)
	}
	return newFileInfo(localPath(name), info)
}

// Lstat is Stat without following a symbolic link at the end of the path.
func (m Machine) Lstat(_ context.Context, name string) (state.FileInfo, error) {
	info, err := os.Lstat(localPath(name))
	if err != nil {
		return state.FileInfo{}, explainParent(err)
	}
	return newFileInfo(localPath(name), info)
}

// ReadDir lists a directory in order of names. It does not follow symbolic links.
func (m Machine) ReadDir(_ context.Context, name string) ([]state.FileInfo, error) {
	name = localPath(name)
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("not a directory")}
	}
	files, err := portable.ReadDir(name, newFileInfo)
	return files, explainParent(err)
}

// newFileInfo describes the file of that path of Windows. Its permissions are those that the access
// control list amounts to.
func newFileInfo(name string, info fs.FileInfo) (state.FileInfo, error) {
	abs, err := programPath(name)
	if err != nil {
		return state.FileInfo{}, err
	}
	found := state.FileInfo{Path: abs, Mode: info.Mode(), ModTime: info.ModTime()}
	if info.Mode().Type()&^fs.ModeDir != 0 {
		return found, nil // the access to a link or a device says nothing
	}
	d, err := readDescriptor(name)
	if err != nil {
		return state.FileInfo{}, err
	}
	mode, uid, err := permissions(d, info.IsDir())
	if err != nil {
		return state.FileInfo{}, fmt.Errorf("%s: %w", name, err)
	}
	found.Mode, found.UID = info.Mode()&^fs.ModePerm|mode, uid
	return found, nil
}

// explainParent returns another error for a path below a file: Windows reports that the path does
// not exist, as if it could be created.
func explainParent(err error) error {
	failed, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(err, windows.ERROR_PATH_NOT_FOUND) {
		return err
	}
	for dir := filepath.Dir(failed.Path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		info, unknown := os.Stat(dir)
		if unknown != nil {
			continue
		}
		if !info.IsDir() {
			return &fs.PathError{Op: failed.Op, Path: failed.Path,
				Err: fmt.Errorf("%s is not a directory", dir)}
		}
		break
	}
	return err
}
