//go:build linux

package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"kubeadm/internal/problem"
)

// resolvedPath is a name in an open directory. Operations relative to that directory are safe
// against another process that replaces a directory of the path by a symbolic link.
type resolvedPath struct {
	dir  *os.File
	name string // "." for the directory itself
	path string // of the name, without symbolic links
	// magic is set for a magic link of procfs, such as /proc/self/fd/1. Only the kernel can
	// follow it; see symlink(7).
	magic bool
}

func (p *resolvedPath) close() { _ = p.dir.Close() } // opened for reading only

// pathError returns the error of an operation on the path.
func (p *resolvedPath) pathError(op string, err error) error {
	return &fs.PathError{Op: op, Path: p.path, Err: err}
}

// pathWalk resolves a path name by name.
type pathWalk struct {
	dir      *os.File
	path     string   // of dir, without symbolic links
	rest     []string // names to resolve
	fromLink int      // how many of the first names of rest are from a symbolic link
	links    int      // followed so far
	strict   bool     // a link is an error
	mode     fs.FileMode
}

// maxLinks is the limit of the kernel too; see path_resolution(7).
const maxLinks = 40

// resolvePath resolves a path and follows symbolic links. Missing directories are created with
// the mode; with mode 0 they are an error.
//
// A symbolic link in a sticky directory that others may write to is followed only if it belongs to
// this user or to the directory's owner, as the kernel does with fs.protected_symlinks; see
// proc_sys_fs(5).
func resolvePath(path string, mode fs.FileMode) (*resolvedPath, error) {
	return resolve(path, mode, true)
}

// resolvePathNoFollow is resolvePath without following a symbolic link at the end of the path.
func resolvePathNoFollow(path string) (*resolvedPath, error) { return resolve(path, 0, false) }

// resolvePathWithoutLinks is resolvePath, with an error for any symbolic link.
func resolvePathWithoutLinks(path string, mode fs.FileMode) (*resolvedPath, error) {
	w, err := newPathWalk(path, mode)
	if err != nil {
		return nil, err
	}
	w.strict = true
	return w.resolveOrClose(true)
}

func resolve(path string, mode fs.FileMode, follow bool) (*resolvedPath, error) {
	w, err := newPathWalk(path, mode)
	if err != nil {
		return nil, err
	}
	return w.resolveOrClose(follow)
}

func (w *pathWalk) resolveOrClose(follow bool) (*resolvedPath, error) {
	p, err := w.resolve(follow)
	if err != nil {
		return nil, errors.Join(err, w.dir.Close())
	}
	return p, nil
}

// openDir opens a directory and returns its path without symbolic links. It follows links and
// creates directories as resolvePath does.
func openDir(path string, mode fs.FileMode) (*os.File, string, error) {
	w, err := newPathWalk(path, mode)
	if err != nil {
		return nil, "", err
	}
	for len(w.rest) > 0 {
		if err := w.enterNext(); err != nil {
			return nil, "", errors.Join(err, w.dir.Close())
		}
	}
	return w.dir, w.path, nil
}

// makeDirs creates a directory and those above it, each with exactly this mode. Existing ones are
// not changed.
func makeDirs(path string, mode fs.FileMode) error {
	d, _, err := openDir(path, mode)
	if err != nil {
		return err
	}
	return d.Close()
}

func newPathWalk(path string, mode fs.FileMode) (*pathWalk, error) {
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		path = here + "/" + path // Join would remove ".." after a symbolic link
	}
	root, err := os.Open("/")
	return &pathWalk{dir: root, path: "/", rest: splitPath(path), mode: mode}, err
}

func splitPath(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"),
		func(n string) bool { return n == "" || n == "." })
}

func (w *pathWalk) popName() string {
	name := w.rest[0]
	w.rest, w.fromLink = w.rest[1:], max(0, w.fromLink-1)
	return name
}

func (w *pathWalk) resolve(follow bool) (*resolvedPath, error) {
	for len(w.rest) > 1 || len(w.rest) == 1 && w.rest[0] == ".." {
		if err := w.enterNext(); err != nil {
			return nil, err
		}
	}
	if len(w.rest) == 0 {
		return &resolvedPath{dir: w.dir, name: ".", path: w.path}, nil
	}
	p := &resolvedPath{dir: w.dir, name: w.rest[0], path: filepath.Join(w.path, w.rest[0])}
	e, err := p.openEntry()
	if err != nil || e == nil || e.st.Mode&unix.S_IFMT != unix.S_IFLNK {
		e.close()
		return p, err
	}
	defer e.close()
	if w.strict {
		return nil, p.pathError("open", unix.ELOOP)
	}
	if p.magic = w.inProcFS(); p.magic || !follow {
		return p, nil
	}
	w.popName()
	if err := w.followLink(e, p.path); err != nil {
		return nil, err
	}
	return w.resolve(follow)
}

// enterNext opens the directory of the next name, or follows it if it is a symbolic link.
func (w *pathWalk) enterNext() error {
	linked := w.fromLink > 0
	name := w.popName()
	p := &resolvedPath{dir: w.dir, name: name, path: filepath.Join(w.path, name)}
	e, err := p.openEntry()
	switch {
	case err != nil:
		return err
	case e == nil && linked:
		return problem.New(
			fmt.Errorf("a symbolic link points to the directory %s, which does not exist: %w",
				p.path, fs.ErrNotExist),
			"create that directory, or remove the link")
	case e == nil && w.mode == 0:
		return p.pathError("open", unix.ENOENT)
	case e == nil:
		if err := w.createDir(p); err != nil {
			return err
		}
		if e, err = p.openEntry(); err != nil || e == nil {
			return errors.Join(err, p.pathError("mkdir", unix.ENOENT))
		}
	}
	defer e.close()
	flags := unix.O_NOFOLLOW
	switch e.st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		if w.strict {
			return p.pathError("open", unix.ELOOP)
		}
		if !w.inProcFS() {
			return w.followLink(e, p.path)
		}
		flags = 0 // such as /proc/self/cwd
	case unix.S_IFDIR:
	default:
		return fmt.Errorf("%s exists, but it is not a directory", p.path)
	}
	fd, err := unix.Openat(int(w.dir.Fd()), name,
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	if errors.Is(err, unix.EACCES) { // O_PATH needs no read permission
		fd, err = unix.Openat(int(w.dir.Fd()), name,
			unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	}
	if err != nil {
		return p.pathError("open", err)
	}
	return w.setDir(os.NewFile(uintptr(fd), p.path), p.path)
}

func (w *pathWalk) setDir(dir *os.File, path string) error {
	err := w.dir.Close()
	w.dir, w.path = dir, path
	return err
}

func (w *pathWalk) createDir(p *resolvedPath) error {
	err := unix.Mkdirat(int(w.dir.Fd()), p.name, uint32(w.mode.Perm()))
	if errors.Is(err, unix.EEXIST) {
		return nil // created by another change meanwhile
	}
	if err != nil {
		return p.pathError("mkdir", err)
	}
	fd, err := unix.Openat(int(w.dir.Fd()), p.name,
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		// Mkdirat applies the umask.
		err = errors.Join(unix.Fchmod(fd, uint32(w.mode.Perm())), unix.Close(fd))
	}
	if err != nil {
		return p.pathError("mkdir", err)
	}
	return syncDir(w.dir)
}

// linkLoop is the error for a symbolic link that leads back to itself.
func linkLoop(path string) error {
	return problem.New(&fs.PathError{Op: "open", Path: path, Err: unix.ELOOP},
		path+" is a symbolic link that leads back to itself: remove it, or point it to the file")
}

// followLink puts the target of a symbolic link in front of the names to resolve.
func (w *pathWalk) followLink(e *entry, path string) error {
	if w.links++; w.links > maxLinks {
		return linkLoop(path)
	}
	dir, err := fstat(w.dir)
	if err != nil {
		return err
	}
	if !isTrustedOwner(dir, e.st) {
		return problem.New(
			fmt.Errorf("%s is a symbolic link that belongs to another user (uid %d), in a directory that others may write to", path, e.st.Uid),
			"remove the link, or use a file in another directory")
	}
	to := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(e.f.Fd()), "", to)
	if err != nil {
		return &fs.PathError{Op: "readlink", Path: path, Err: err}
	}
	into := splitPath(string(to[:n]))
	w.rest, w.fromLink = slices.Concat(into, w.rest), len(into)+w.fromLink
	if n == 0 || to[0] != '/' {
		return nil
	}
	root, err := os.Open("/")
	if err != nil {
		return err
	}
	return w.setDir(root, "/")
}

// inProcFS reports whether the current directory is in procfs. Only the kernel can follow the
// magic links there.
func (w *pathWalk) inProcFS() bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(w.dir.Fd()), &s) == nil && s.Type == unix.PROC_SUPER_MAGIC
}

// entry is an existing file or directory. It stays valid if the name is removed meanwhile.
type entry struct {
	f  *os.File // opened with O_PATH
	st *unix.Stat_t
}

func (e *entry) close() {
	if e != nil {
		_ = e.f.Close()
	}
}

// openEntry returns nil if the name does not exist. It does not follow symbolic links.
func (p *resolvedPath) openEntry() (*entry, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), p.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, p.pathError("open", err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	st, err := fstat(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &entry{f, st}, nil
}

func fstat(f *os.File) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return &st, nil
}

// isTrustedOwner reports whether a file or link may be used in the directory. In a sticky
// directory that others may write to, it must belong to this user or to the directory's owner.
func isTrustedOwner(dir, file *unix.Stat_t) bool {
	shared := dir.Mode&unix.S_ISVTX != 0 && dir.Mode&0o022 != 0
	return !shared || file.Uid == dir.Uid || int(file.Uid) == os.Geteuid()
}

// syncDir writes the names in a directory to the disk.
func syncDir(d *os.File) error {
	err := d.Sync()
	// Some file systems cannot sync a directory, and a directory opened with O_PATH cannot be
	// synced.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EBADF) {
		return nil
	}
	return err
}
