//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"kubeadm/internal/state"
)

// ReadFile reads a file of at most 16 MiB. A FIFO, as of a process substitution, is read to its
// end; the wait for its writer is limited.
func (m Machine) ReadFile(ctx context.Context, path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, linkLoop(path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0:
		return readStream(ctx, f, info.Mode()&fs.ModeNamedPipe != 0)
	}
	return readLimited(f)
}

// OpenFile opens a regular file of any size.
func (m Machine) OpenFile(_ context.Context, path string) (io.ReadCloser, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, linkLoop(path)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// OpenedPath is a path of a file that OpenFile, WriteStream or WithUnnamedFile has opened: it stays that of
// this file if another one is put in its place, or if it has no name.
func (m Machine) OpenedPath(f any) string {
	if opened, ok := f.(*os.File); ok {
		return fmt.Sprintf("/proc/self/fd/%d", opened.Fd())
	}
	return ""
}

// ReadPrivate reads a file that only root and this user can read or change, in such a directory. It is
// opened relative to the directory that was checked, so that nobody can exchange either in between.
func (m Machine) ReadPrivate(_ context.Context, path string) ([]byte, error) {
	p, err := resolvePathNoFollow(path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := checkPrivate(p.dir); err != nil {
		return nil, err
	}
	fd, err := unix.Openat(int(p.dir.Fd()), p.name,
		unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link", p.path)
	}
	if err != nil {
		return nil, p.pathError("open", err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	defer f.Close()
	if err := checkPrivate(f); err != nil {
		return nil, err
	}
	return readLimited(f)
}

func checkPrivate(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	found, err := newFileInfo(f.Name(), info)
	if err != nil {
		return err
	}
	return state.CheckPrivate(found, os.Geteuid())
}

// readLimited reads a file of at most 16 MiB.
func readLimited(f *os.File) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(f, streamLimit+1))
	if err == nil && len(all) > streamLimit {
		return nil, fmt.Errorf("reading %s: it is larger than %d MiB", f.Name(), streamLimit>>20)
	}
	return all, err
}

// Stat describes a file or directory. It follows symbolic links.
func (m Machine) Stat(_ context.Context, path string) (state.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return state.FileInfo{}, err
	}
	return newFileInfo(path, info)
}

// Lstat is Stat without following a symbolic link at the end of the path.
func (m Machine) Lstat(_ context.Context, path string) (state.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return state.FileInfo{}, err
	}
	return newFileInfo(path, info)
}

// ReadDir lists a directory in order of names. It does not follow symbolic links.
func (m Machine) ReadDir(_ context.Context, path string) ([]state.FileInfo, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
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
		file, err := newFileInfo(filepath.Join(path, e.Name()), info)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func newFileInfo(path string, info fs.FileInfo) (state.FileInfo, error) {
	abs, err := filepath.Abs(path)
	owner := info.Sys().(*syscall.Stat_t)
	return state.FileInfo{
		Path:    abs,
		Mode:    info.Mode(),
		ModTime: info.ModTime(),
		Size:    info.Size(),
		UID:     int(owner.Uid),
		GID:     int(owner.Gid),
	}, err
}
