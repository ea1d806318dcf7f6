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

// place is a name in a directory that is held open. What is done there cannot be led elsewhere
// by a link that another process puts on the way meanwhile.
type place struct {
	dir  *os.File
	name string // "." for the directory itself
	path string // of the name, without symbolic links
	// magic: the name is a link of procfs to an open file, such as /proc/self/fd/1. Only the
	// kernel can follow it.
	magic bool
}

func (p *place) close() { _ = p.dir.Close() } // nothing was written through it

// fault is an error of an operation at the place.
func (p *place) fault(op string, err error) error {
	return &fs.PathError{Op: op, Path: p.path, Err: err}
}

// walk goes down a path, one name after the other.
type walk struct {
	dir    *os.File
	path   string   // of dir, without symbolic links
	rest   []string // names still to go
	linked int      // how many of the first names of rest are from a symbolic link
	links  int      // followed so far
	mode   fs.FileMode
}

// mostLinks is how many links the kernel follows in one path; see path_resolution(7).
const mostLinks = 40

// locate finds the place that a path names, following symbolic links. Directories that are
// missing on the way get the mode; without one they are an error.
//
// A link in a sticky directory that others may write to is followed only if it belongs to this
// user or to the directory's owner, as the kernel does with fs.protected_symlinks; see
// proc_sys_fs(5).
func locate(path string, mode fs.FileMode) (*place, error) { return find(path, mode, true) }

// locateLink is locate for the link itself, if the path names one.
func locateLink(path string) (*place, error) { return find(path, 0, false) }

func find(path string, mode fs.FileMode, follow bool) (*place, error) {
	w, err := begin(path, mode)
	if err != nil {
		return nil, err
	}
	p, err := w.toPlace(follow)
	if err != nil {
		return nil, errors.Join(err, w.dir.Close())
	}
	return p, nil
}

// openDir opens the directory that a path names, and returns its path without symbolic links.
// It follows links and creates directories as locate does.
func openDir(path string, mode fs.FileMode) (*os.File, string, error) {
	w, err := begin(path, mode)
	if err != nil {
		return nil, "", err
	}
	for len(w.rest) > 0 {
		if err := w.enter(); err != nil {
			return nil, "", errors.Join(err, w.dir.Close())
		}
	}
	return w.dir, w.path, nil
}

// makeDirs creates a directory and those above it, each with exactly this mode. One that exists
// is left as it is.
func makeDirs(path string, mode fs.FileMode) error {
	d, _, err := openDir(path, mode)
	if err != nil {
		return err
	}
	return d.Close()
}

func begin(path string, mode fs.FileMode) (*walk, error) {
	if !filepath.IsAbs(path) {
		here, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		path = here + "/" + path // not Join: what ".." means after a link, the walk finds out
	}
	root, err := os.Open("/")
	return &walk{dir: root, path: "/", rest: names(path), mode: mode}, err
}

func names(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(n string) bool { return n == "" || n == "." })
}

func (w *walk) next() string {
	name := w.rest[0]
	w.rest, w.linked = w.rest[1:], max(0, w.linked-1)
	return name
}

func (w *walk) toPlace(follow bool) (*place, error) {
	for len(w.rest) > 1 || len(w.rest) == 1 && w.rest[0] == ".." {
		if err := w.enter(); err != nil {
			return nil, err
		}
	}
	if len(w.rest) == 0 {
		return &place{dir: w.dir, name: ".", path: w.path}, nil
	}
	p := &place{dir: w.dir, name: w.rest[0], path: filepath.Join(w.path, w.rest[0])}
	e, err := p.look()
	if err != nil || e == nil || e.st.Mode&unix.S_IFMT != unix.S_IFLNK {
		e.close()
		return p, err
	}
	defer e.close()
	if p.magic = w.ofProc(); p.magic || !follow {
		return p, nil
	}
	w.next()
	if err := w.follow(e, p.path); err != nil {
		return nil, err
	}
	return w.toPlace(follow)
}

// enter goes into the directory of the next name, or follows the link that has it.
func (w *walk) enter() error {
	linked := w.linked > 0
	name := w.next()
	p := &place{dir: w.dir, name: name, path: filepath.Join(w.path, name)}
	e, err := p.look()
	switch {
	case err != nil:
		return err
	case e == nil && linked:
		return problem.New("", fmt.Errorf("a symbolic link leads to the directory %s, which does not exist: %w", p.path, fs.ErrNotExist),
			"create that directory, or remove the link")
	case e == nil && w.mode == 0:
		return p.fault("open", unix.ENOENT)
	case e == nil:
		if err := w.create(p); err != nil {
			return err
		}
		if e, err = p.look(); err != nil || e == nil {
			return errors.Join(err, p.fault("mkdir", unix.ENOENT))
		}
	}
	defer e.close()
	flags := unix.O_NOFOLLOW
	switch e.st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		if !w.ofProc() {
			return w.follow(e, p.path)
		}
		flags = 0 // such as /proc/self/cwd
	case unix.S_IFDIR:
	default:
		return fmt.Errorf("%s is in the way: it is not a directory", p.path)
	}
	fd, err := unix.Openat(int(w.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	if errors.Is(err, unix.EACCES) { // to go through it takes less than to list it
		fd, err = unix.Openat(int(w.dir.Fd()), name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	}
	if err != nil {
		return p.fault("open", err)
	}
	return w.into(os.NewFile(uintptr(fd), p.path), p.path)
}

func (w *walk) into(dir *os.File, path string) error {
	err := w.dir.Close()
	w.dir, w.path = dir, path
	return err
}

func (w *walk) create(p *place) error {
	err := unix.Mkdirat(int(w.dir.Fd()), p.name, uint32(w.mode.Perm()))
	if errors.Is(err, unix.EEXIST) {
		return nil // created by another change at the same moment
	}
	if err != nil {
		return p.fault("mkdir", err)
	}
	fd, err := unix.Openat(int(w.dir.Fd()), p.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		// The umask must not narrow what was asked for.
		err = errors.Join(unix.Fchmod(fd, uint32(w.mode.Perm())), unix.Close(fd))
	}
	if err != nil {
		return p.fault("mkdir", err)
	}
	return syncDir(w.dir)
}

// follow replaces the link that was met by what it holds.
func (w *walk) follow(e *entry, path string) error {
	if w.links++; w.links > mostLinks {
		return &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
	}
	dir, err := statOf(w.dir)
	if err != nil {
		return err
	}
	if !trusted(dir, e.st) {
		return problem.New("", fmt.Errorf("%s is a symbolic link of another user (uid %d) in a directory that others may write to", path, e.st.Uid),
			"remove the link, or name a file elsewhere")
	}
	to := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(e.f.Fd()), "", to)
	if err != nil {
		return &fs.PathError{Op: "readlink", Path: path, Err: err}
	}
	into := names(string(to[:n]))
	w.rest, w.linked = slices.Concat(into, w.rest), len(into)+w.linked
	if n == 0 || to[0] != '/' {
		return nil
	}
	root, err := os.Open("/")
	if err != nil {
		return err
	}
	return w.into(root, "/")
}

// ofProc reports whether the walk has come to a directory of procfs. The text of its links is
// for people: only the kernel can follow them.
func (w *walk) ofProc() bool {
	var s unix.Statfs_t
	return unix.Fstatfs(int(w.dir.Fd()), &s) == nil && s.Type == unix.PROC_SUPER_MAGIC
}

// entry is what is at a place: a file that may have lost its name since.
type entry struct {
	f  *os.File // opened for looking only
	st *unix.Stat_t
}

func (e *entry) close() {
	if e != nil {
		_ = e.f.Close()
	}
}

// proc is a path of the file itself, wherever it is moved to.
func (e *entry) proc() string { return fmt.Sprintf("/proc/self/fd/%d", e.f.Fd()) }

// look is nil where nothing is. It does not follow links.
func (p *place) look() (*entry, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), p.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, p.fault("open", err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	st, err := statOf(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &entry{f, st}, nil
}

func statOf(f *os.File) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	return &st, nil
}

// trusted reports whether a file or link of that owner may be used in the directory. In a sticky
// directory that others may write to, it must belong to this user or to the directory's owner.
func trusted(dir, file *unix.Stat_t) bool {
	shared := dir.Mode&unix.S_ISVTX != 0 && dir.Mode&0o022 != 0
	return !shared || file.Uid == dir.Uid || int(file.Uid) == os.Geteuid()
}

// syncDir makes the names in a directory survive a loss of power.
func syncDir(d *os.File) error {
	err := d.Sync()
	// Some file systems cannot sync a directory, and one that may only be entered was not opened for it.
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EBADF) {
		return nil
	}
	return err
}
