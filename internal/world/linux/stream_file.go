package linux

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// WriteStream atomically creates or replaces a file of mode 0600 with what write writes, without
// keeping it in memory. Missing directories get mode 0700. The file is renamed to its name after
// write has returned nil and the data were synced. Temporary files of a killed process are removed
// first.
func (m Machine) WriteStream(path string, write func(to io.Writer) error) error {
	p, err := resolvePath(path, 0o700)
	if err != nil {
		return explainWriteError(path, err)
	}
	defer p.close()
	old, err := p.openEntry()
	if err != nil {
		return explainWriteError(p.path, err)
	}
	if old != nil {
		kind := old.st.Mode & unix.S_IFMT
		old.close()
		if kind != unix.S_IFREG {
			return fmt.Errorf("%s exists, but it is not a regular file", p.path)
		}
	}
	if err := p.removeTemporaryFiles(); err != nil {
		return explainWriteError(p.path, err)
	}
	return explainWriteError(p.path, p.replaceFrom(write))
}

func (p *resolvedPath) replaceFrom(write func(to io.Writer) error) error {
	name := change.TemporaryName(p.name, rand.Text())
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(p.dir.Fd()), name, flags, 0o600)
	if err != nil {
		return p.pathError("create", err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		if err = unix.Renameat(int(p.dir.Fd()), name, int(p.dir.Fd()), p.name); err != nil {
			err = p.pathError("rename", err)
		}
	}
	if err != nil {
		_ = unix.Unlinkat(int(p.dir.Fd()), name, 0) // the first error matters
		return err
	}
	return syncDir(p.dir)
}

// FreeSpace returns the free bytes of the file system of a path, which need not exist yet.
func (m Machine) FreeSpace(path string) (uint64, error) {
	for {
		var st unix.Statfs_t
		err := unix.Statfs(path, &st)
		if err == nil {
			return st.Bavail * uint64(st.Bsize), nil
		}
		if !errors.Is(err, unix.ENOENT) || path == filepath.Dir(path) {
			return 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
		}
		path = filepath.Dir(path)
	}
}
