//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteStream atomically creates or replaces a file of mode 0600 with what write writes, without
// keeping it in memory. Missing directories get mode 0700. The file is renamed to its name after
// write has returned nil and the data were synced; write may read what it has written, to verify it.
// Temporary files of a killed process are removed first.
func (m Machine) WriteStream(path string, write func(to io.ReadWriteSeeker) error) error {
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
	return explainWriteError(p.path, p.replace(func(f *os.File) error {
		if err := write(f); err != nil {
			return err
		}
		return f.Sync()
	}))
}

// WithUnnamedFile calls use with an empty file beside path that has no name: no other process can open
// it, and nothing is left of it, even if this one is killed.
func (m Machine) WithUnnamedFile(path string, use func(f io.ReadWriteSeeker) error) error {
	p, err := resolvePath(path, 0o700)
	if err != nil {
		return explainWriteError(path, err)
	}
	defer p.close()
	f, name, err := p.createTemporary()
	if err != nil {
		return explainWriteError(p.path, err)
	}
	if err := unix.Unlinkat(int(p.dir.Fd()), name, 0); err != nil {
		return errors.Join(p.pathError("unlink", err), f.Close())
	}
	return explainWriteError(p.path, errors.Join(use(f), f.Close()))
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
