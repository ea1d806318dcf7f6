package linux

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
)

// writeFile replaces the file as a whole: it is written beside the old one, synced and renamed.
// A symbolic link stays and the file behind it is replaced, or created. An existing file keeps
// its mode, its owner and its access control list, but for a secret see inherits.
func writeFile(ctx context.Context, c change.WriteFile) error {
	missing := fs.FileMode(0o755)
	if c.Output {
		missing = 0
	}
	p, err := locate(c.Path, missing)
	if err != nil {
		return explain(c.Path, err)
	}
	defer p.close()
	if c.Resumed {
		if err := p.sweep(); err != nil {
			return explain(p.path, err)
		}
	}
	return explain(p.path, p.write(ctx, c))
}

func (p *place) write(ctx context.Context, c change.WriteFile) error {
	if p.magic {
		return p.pour(ctx, c.Data)
	}
	old, err := p.look()
	if err != nil {
		return err
	}
	defer old.close()
	if old == nil {
		return p.replace(c, nil)
	}
	dir, err := statOf(p.dir)
	if err != nil {
		return err
	}
	kind := old.st.Mode & unix.S_IFMT
	switch kind {
	case unix.S_IFREG, unix.S_IFIFO:
		// As the kernel does with fs.protected_regular and fs.protected_fifos; see proc_sys_fs(5).
		if !trusted(dir, old.st) {
			return problem.New("", fmt.Errorf("%s is a file of another user (uid %d) in a directory that others may write to", p.path, old.st.Uid),
				"remove the file, or name one elsewhere")
		}
	case unix.S_IFCHR:
	default:
		return fmt.Errorf("%s is in the way: it is not a regular file", p.path)
	}
	if kind != unix.S_IFREG {
		return p.pour(ctx, c.Data)
	}
	err = p.replace(c, old)
	if cannotRename(err) && p.overwrite(c, old) == nil {
		return nil
	}
	return err
}

// inherits reports whether a file keeps owner, mode and access control list of the one that it
// replaces. A secret does so only where none but this user and root can have put that file: in a
// directory that nobody else may write to. The file that a user names for output never does.
func (p *place) inherits(c change.WriteFile) bool {
	if !c.Secret || c.Output {
		return !c.Secret
	}
	dir, err := statOf(p.dir)
	return err == nil && (dir.Uid == 0 || int(dir.Uid) == os.Geteuid()) && dir.Mode&0o022 == 0
}

func (p *place) replace(c change.WriteFile, old *entry) error {
	name := change.PendingName(p.name, rand.Text())
	fd, err := unix.Openat(int(p.dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return p.fault("create", err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	err = errors.Join(p.fill(f, c, old), f.Close())
	if err == nil {
		if err = unix.Renameat(int(p.dir.Fd()), name, int(p.dir.Fd()), p.name); err != nil {
			err = p.fault("rename", err)
		}
	}
	if err != nil {
		_ = unix.Unlinkat(int(p.dir.Fd()), name, 0) // it may be gone; the first error counts
		return err
	}
	return syncDir(p.dir)
}

// fill gives the new file owner and mode before it gets its contents.
func (p *place) fill(f *os.File, c change.WriteFile, old *entry) error {
	mode := c.Mode.Perm()
	switch {
	case old != nil && p.inherits(c):
		mode = fs.FileMode(old.st.Mode).Perm()
		now, err := statOf(f)
		if err != nil {
			return err
		}
		if now.Uid != old.st.Uid || now.Gid != old.st.Gid {
			if err := f.Chown(int(old.st.Uid), int(old.st.Gid)); err != nil {
				return err
			}
		}
	case old != nil:
		mode &= fs.FileMode(old.st.Mode).Perm()
		old = nil
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := keepAccess(f, old); err != nil {
		return err
	}
	if _, err := f.Write(c.Data); err != nil {
		return err
	}
	return f.Sync()
}

// cannotRename reports whether the file can only be written in place, if at all: it is a mount
// point, as in containers, or its directory is not for this user to write to. See
// docs/decisions/0029-in-place.md.
func cannotRename(err error) bool {
	return slices.ContainsFunc([]error{unix.EBUSY, unix.EACCES, unix.EPERM, unix.EROFS},
		func(e error) bool { return errors.Is(err, e) })
}

// overwrite writes a regular file in place.
func (p *place) overwrite(c change.WriteFile, old *entry) error {
	keep := p.inherits(c)
	if !keep && int(old.st.Uid) != os.Geteuid() {
		return p.fault("open", unix.EPERM) // it would be a secret of the file's owner
	}
	fd, err := unix.Openat(int(p.dir.Fd()), p.name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return p.fault("open", err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	write := func() error {
		now, err := statOf(f)
		if err != nil {
			return err
		}
		if now.Ino != old.st.Ino || now.Dev != old.st.Dev {
			return p.fault("open", unix.EBUSY) // another process has replaced it
		}
		if mode := fs.FileMode(now.Mode).Perm() & c.Mode.Perm(); !keep {
			if err := f.Chmod(mode); err != nil {
				return err
			}
		}
		if _, err := f.Write(c.Data); err != nil {
			return err
		}
		return errors.Join(f.Truncate(int64(len(c.Data))), f.Sync())
	}
	return errors.Join(write(), f.Close())
}

// How long a FIFO may be without a reader, and a reader without reading.
const (
	readerLimit = 10 * time.Second
	pourLimit   = time.Minute
)

// pour writes to what keeps nothing: a FIFO, a terminal, /dev/stdout.
func (p *place) pour(ctx context.Context, data []byte) error {
	f, err := p.openStream(ctx)
	if err != nil {
		return err
	}
	_ = f.SetWriteDeadline(time.Now().Add(pourLimit)) // not all of them know deadlines
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func (p *place) openStream(ctx context.Context) (*os.File, error) {
	flags := unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if p.magic {
		// A file of this process goes on where the process has come to, be it a file that is
		// appended to. A socket cannot be opened by its name at all.
		n, err := strconv.Atoi(p.name)
		own := filepath.Dir(p.path)
		if err == nil && (own == "/proc/self/fd" || own == fmt.Sprintf("/proc/%d/fd", os.Getpid())) {
			fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return nil, p.fault("open", err)
			}
			return os.NewFile(uintptr(fd), p.path), nil
		}
		flags &^= unix.O_NOFOLLOW
	}
	deadline := time.Now().Add(readerLimit)
	for {
		fd, err := unix.Openat(int(p.dir.Fd()), p.name, flags, 0)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), p.path), nil
		case !errors.Is(err, unix.ENXIO):
			return nil, p.fault("open", err)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("waiting for a reader of %s: %w", p.path, context.Cause(ctx))
		case time.Now().After(deadline):
			return nil, fmt.Errorf("%s is a FIFO that no program reads, waited %s", p.path, readerLimit)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// sweep removes what an earlier write of the same file left behind when it was killed.
func (p *place) sweep() error {
	d, _, err := openDir(filepath.Dir(p.path), 0)
	if err != nil {
		return err
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !change.IsPending(p.name, e.Name()) {
			continue
		}
		if err := unix.Unlinkat(int(p.dir.Fd()), e.Name(), 0); err != nil && !errors.Is(err, unix.ENOENT) {
			return &fs.PathError{Op: "remove", Path: filepath.Join(filepath.Dir(p.path), e.Name()), Err: err}
		}
	}
	return nil
}

// explain names the file system that is full or read-only.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		return problem.New("", err, "make it writable, for example: mount -o remount,rw "+mountOf(path))
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("no space left on %s: %w", mountOf(path), err)
	}
	return err
}
