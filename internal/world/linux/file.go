package linux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"kubeadm/internal/state"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReadFile returns a file's bytes. A FIFO is read to its end, as it is for process substitution;
// the wait for its writer is bounded. What is larger than 16 MiB, be it a device, is an error.
func (m Machine) ReadFile(ctx context.Context, path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
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
	all, err := io.ReadAll(io.LimitReader(f, streamLimit+1))
	if err == nil && len(all) > streamLimit {
		return nil, fmt.Errorf("reading %s: it is larger than %d MiB", path, streamLimit>>20)
	}
	return all, err
}

// Stat returns what is known of a file or directory; it follows symbolic links.
func (m Machine) Stat(_ context.Context, path string) (state.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return state.FileInfo{}, err
	}
	return infoOf(path, info)
}

// Lstat is Stat of the link itself, if the path names one.
func (m Machine) Lstat(_ context.Context, path string) (state.FileInfo, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return state.FileInfo{}, err
	}
	return infoOf(path, info)
}

// ReadDir lists what is directly in a folder, in order of names. It does not follow symbolic links.
func (m Machine) ReadDir(_ context.Context, path string) ([]state.FileInfo, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var inside []state.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it went away since the folder was read
		}
		if err != nil {
			return nil, err
		}
		one, err := infoOf(filepath.Join(path, e.Name()), info)
		if err != nil {
			return nil, err
		}
		inside = append(inside, one)
	}
	return inside, nil
}

func infoOf(path string, info fs.FileInfo) (state.FileInfo, error) {
	abs, err := filepath.Abs(path)
	owner := info.Sys().(*syscall.Stat_t)
	return state.FileInfo{
		Path:    abs,
		Mode:    info.Mode(),
		ModTime: info.ModTime(),
		UID:     int(owner.Uid),
		GID:     int(owner.Gid),
	}, err
}

// Tail returns the last bytes of a file, at most limit of them.
func (m Machine) Tail(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, info.Size()-limit), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit))
}
