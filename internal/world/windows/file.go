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
)

// maxFileSize is how much of a file is read.
const maxFileSize = 16 << 20

// ReadFile reads a file of at most 16 MiB.
func (m Machine) ReadFile(_ context.Context, name string) ([]byte, error) {
	f, err := openShared(localPath(name))
	if err != nil {
		return nil, explainParent(err)
	}
	defer f.Close()
	return readLimited(f)
}

// OpenFile opens a regular file of any size. Until it is closed, no program can change or replace it.
func (m Machine) OpenFile(_ context.Context, name string) (io.ReadCloser, error) {
	name = localPath(name)
	info, err := os.Stat(name)
	if err != nil {
		return nil, explainParent(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	h, err := windows.CreateFile(path, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil,
		windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

// OpenedPath is the path of a file that OpenFile or WriteStream has opened: it stays that of this file.
func (m Machine) OpenedPath(f any) string {
	if opened, ok := f.(*os.File); ok {
		return opened.Name()
	}
	return ""
}

// openShared opens a file for reading, and lets others replace it meanwhile. It waits a moment for a
// program that has the file alone.
func openShared(name string) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	for begun := time.Now(); ; time.Sleep(sharingPause) {
		h, err := windows.CreateFile(path, windows.GENERIC_READ,
			windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
			windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL, 0)
		switch {
		case err == nil:
			return os.NewFile(uintptr(h), name), nil
		case !errors.Is(err, windows.ERROR_SHARING_VIOLATION) || time.Since(begun) > sharingLimit:
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// ReadPrivate reads a file that only Administrators, SYSTEM and this user can read or change, in a
// directory that only these can change.
func (m Machine) ReadPrivate(ctx context.Context, name string) ([]byte, error) {
	dir, err := m.Stat(ctx, filepath.Dir(localPath(name)))
	if err != nil {
		return nil, err
	}
	file, err := m.Lstat(ctx, name)
	if err != nil {
		return nil, err
	}
	if file.Mode.Type() == fs.ModeSymlink {
		return nil, fmt.Errorf("%s is a symbolic link", file.Path)
	}
	for _, info := range []state.FileInfo{dir, file} {
		if err := state.CheckPrivate(info, 0); err != nil {
			return nil, err
		}
	}
	return m.ReadFile(ctx, name)
}

func readLimited(f *os.File) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(all) > maxFileSize {
		return nil, fmt.Errorf("reading %s: it is larger than %d MiB", f.Name(), maxFileSize>>20)
	}
	return all, err
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
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, explainParent(err)
	}
	var files []state.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		file, err := newFileInfo(filepath.Join(name, e.Name()), info)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
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
