//go:build linux

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
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
)

// writeFile replaces a file atomically: it writes a temporary file, syncs and renames it.
// A symbolic link stays, and its target is replaced or created. An existing file keeps
// its mode, owner and access control list; for a secret see inheritsAccess.
func writeFile(ctx context.Context, c change.WriteFile) error {
	return writeFileAfter(ctx, c, func() error { return nil })
}

// writeKeyPair replaces the key when the new certificate is complete in its temporary file. If the
// certificate cannot be replaced after that, the previous key is written again.
func writeKeyPair(ctx context.Context, c change.WriteKeyPair) error {
	previous := c.Key
	var unread error
	previous.Data, unread = os.ReadFile(c.Key.Path)
	written := false
	err := writeFileAfter(ctx, c.Cert, func() error {
		err := writeFile(ctx, c.Key)
		written = err == nil
		return err
	})
	if err != nil && written && unread == nil {
		err = errors.Join(err, writeFile(context.WithoutCancel(ctx), previous))
	}
	return err
}

// writeFileAfter is writeFile. It calls ready once, when the new contents are in a temporary file if
// there can be one, and before the file is changed, which stays as it was if that fails.
func writeFileAfter(ctx context.Context, c change.WriteFile, ready func() error) error {
	if err := c.CheckSecret(); err != nil {
		return err
	}
	dirMode := fs.FileMode(0o755)
	if c.Output {
		dirMode = 0
	}
	find := resolvePath
	if c.Placement != nil {
		find, dirMode = resolvePathWithoutLinks, c.Placement.DirMode
	}
	p, err := find(c.Path, dirMode)
	if link := (&fs.PathError{}); c.Placement != nil && errors.Is(err, unix.ELOOP) && errors.As(err, &link) {
		return change.NewLinkError(c.Path, link.Path)
	}
	if err != nil {
		return explainWriteError(c.Path, err)
	}
	defer p.close()
	if c.RemoveTemporary {
		if err := p.removeTemporaryFiles(); err != nil {
			return explainWriteError(p.path, err)
		}
	}
	return explainWriteError(p.path, p.write(ctx, c, sync.OnceValue(ready)))
}

func (p *resolvedPath) write(ctx context.Context, c change.WriteFile, ready func() error) error {
	if p.magic {
		if err := ready(); err != nil {
			return err
		}
		return p.writeStream(ctx, c.Data)
	}
	old, err := p.openEntry()
	if err != nil {
		return err
	}
	defer old.close()
	var notReady error
	writeTemporary := func(f *os.File) error {
		if err := p.writeContents(f, c, old); err != nil {
			return err
		}
		notReady = ready()
		return notReady
	}
	if old == nil {
		return p.replace(writeTemporary)
	}
	dir, err := fstat(p.dir)
	if err != nil {
		return err
	}
	kind := old.st.Mode & unix.S_IFMT
	switch kind {
	case unix.S_IFREG, unix.S_IFIFO:
		// As the kernel does with fs.protected_regular and fs.protected_fifos; see proc_sys_fs(5).
		if !isTrustedOwner(dir, old.st) {
			return problem.New(
				fmt.Errorf("%s is a file that belongs to another user (uid %d), in a directory that others may write to", p.path, old.st.Uid),
				"remove the file, or use one in another directory")
		}
	case unix.S_IFCHR:
	default:
		return fmt.Errorf("%s exists, but it is not a regular file", p.path)
	}
	if kind != unix.S_IFREG {
		if err := ready(); err != nil {
			return err
		}
		return p.writeStream(ctx, c.Data)
	}
	err = p.replace(writeTemporary)
	if err == nil || notReady != nil {
		return err
	}
	if !needsInPlaceWrite(err) {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	if p.writeInPlace(c, old) == nil {
		return nil
	}
	return err
}

// needsInPlaceWrite reports whether the error of a rename means that the file can only be written
// in place: it is a mount point, as in containers, or its directory is not writable. See
// docs/decisions/0029-in-place.md.
func needsInPlaceWrite(err error) bool {
	return slices.ContainsFunc([]error{unix.EBUSY, unix.EACCES, unix.EPERM, unix.EROFS},
		func(e error) bool { return errors.Is(err, e) })
}

// inheritsAccess reports whether a file keeps owner, mode and access control list of the one that
// it replaces. A secret does so only in a directory that no user but this one and root may write
// to. A secret in a file that the user named for output never does.
func (p *resolvedPath) inheritsAccess(c change.WriteFile) bool {
	if !c.Secret || c.Output {
		return !c.Secret
	}
	dir, err := fstat(p.dir)
	return err == nil && (dir.Uid == 0 || int(dir.Uid) == os.Geteuid()) && dir.Mode&0o022 == 0
}

// createTemporary creates an empty file of mode 0600 with a new temporary name.
func (p *resolvedPath) createTemporary() (f *os.File, name string, err error) {
	name = change.TemporaryName(p.name, rand.Text())
	fd, err := unix.Openat(int(p.dir.Fd()), name,
		unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, "", p.pathError("create", err)
	}
	return os.NewFile(uintptr(fd), p.path), name, nil
}

// replace renames a file of mode 0600 to the path after write has written and synced it.
func (p *resolvedPath) replace(write func(f *os.File) error) error {
	f, name, err := p.createTemporary()
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Close())
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

// writeContents sets owner and mode of the new file before it writes the contents.
func (p *resolvedPath) writeContents(f *os.File, c change.WriteFile, old *entry) error {
	mode := c.Mode.Perm()
	switch {
	case c.Placement != nil:
		if err := f.Chown(c.Placement.UID, c.Placement.GID); err != nil {
			return err
		}
		isSame := old != nil && int(old.st.Uid) == c.Placement.UID && int(old.st.Gid) == c.Placement.GID &&
			fs.FileMode(old.st.Mode).Perm() == mode
		if !isSame || !p.inheritsAccess(c) {
			old = nil
		}
	case old != nil && p.inheritsAccess(c):
		mode = fs.FileMode(old.st.Mode).Perm()
		created, err := fstat(f)
		if err != nil {
			return err
		}
		if created.Uid != old.st.Uid || created.Gid != old.st.Gid {
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
	if err := copyAccessAttributes(f, old); err != nil {
		return err
	}
	if _, err := f.Write(c.Data); err != nil {
		return err
	}
	return f.Sync()
}

// writeInPlace overwrites a regular file.
func (p *resolvedPath) writeInPlace(c change.WriteFile, old *entry) error {
	keep := p.inheritsAccess(c)
	if !keep && int(old.st.Uid) != os.Geteuid() {
		return p.pathError("open", unix.EPERM) // the file's owner could read the secret
	}
	fd, err := unix.Openat(int(p.dir.Fd()), p.name,
		unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return p.pathError("open", err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	write := func() error {
		now, err := fstat(f)
		if err != nil {
			return err
		}
		if now.Ino != old.st.Ino || now.Dev != old.st.Dev {
			return p.pathError("open", unix.EBUSY) // another process has replaced it
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

// How long to wait for a reader of a FIFO, and for the reader to read everything.
const (
	readerLimit      = 10 * time.Second
	streamWriteLimit = time.Minute
)

// writeStream writes to a FIFO, a terminal or /dev/stdout.
func (p *resolvedPath) writeStream(ctx context.Context, data []byte) error {
	f, err := p.openStream(ctx)
	if err != nil {
		return err
	}
	_ = f.SetWriteDeadline(time.Now().Add(streamWriteLimit)) // not all of them support deadlines
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func (p *resolvedPath) openStream(ctx context.Context) (*os.File, error) {
	flags := unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_NOFOLLOW
	if p.magic {
		// A duplicate of an open file of this process keeps its offset and append mode. A socket
		// cannot be opened by name at all.
		n, err := strconv.Atoi(p.name)
		own := filepath.Dir(p.path)
		if err == nil && (own == "/proc/self/fd" ||
			own == fmt.Sprintf("/proc/%d/fd", os.Getpid())) {
			fd, err := unix.FcntlInt(uintptr(n), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				return nil, p.pathError("open", err)
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
			return nil, p.pathError("open", err)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("waiting for a reader of %s: %w", p.path, context.Cause(ctx))
		case time.Now().After(deadline):
			return nil, fmt.Errorf(
				"%s is a FIFO, and no program has opened it for reading within %s", p.path,
				readerLimit)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// removeTemporaryFiles removes the temporary files of earlier writes that were killed.
func (p *resolvedPath) removeTemporaryFiles() error {
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
		if !e.Type().IsRegular() || !change.IsTemporaryName(p.name, e.Name()) {
			continue
		}
		if err := unix.Unlinkat(int(p.dir.Fd()), e.Name(), 0); err != nil &&
			!errors.Is(err, unix.ENOENT) {
			return &fs.PathError{Op: "remove", Path: filepath.Join(filepath.Dir(p.path), e.Name()),
				Err: err}
		}
	}
	return nil
}

// noSpaceError says which file system is full.
type noSpaceError struct {
	mountPoint string
	err        error
}

func (e *noSpaceError) Error() string {
	return fmt.Sprintf("no space left on %s: %v", e.mountPoint, e.err)
}

func (e *noSpaceError) Unwrap() error { return e.err }

// explainWriteError adds the mount point of a file system that is full or read-only, unless the error
// names it: the files of a pair are written inside each other.
func explainWriteError(path string, err error) error {
	switch {
	case errors.Is(err, unix.EROFS):
		return problem.New(err, "make it writable, for example: mount -o remount,rw "+
			findMountPoint(path))
	case errors.As(err, new(*noSpaceError)):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return &noSpaceError{findMountPoint(path), err}
	}
	return err
}

// findMountPoint returns the mount point of the file system that a path is on, or would be created
// on. A bind mount counts: it may be read-only on its own.
func findMountPoint(path string) string {
	for ; path != "/" && path != "."; path = filepath.Dir(path) {
		var own, parent unix.Statx_t
		if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS, &own) != nil {
			continue
		}
		if own.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 { // not known before Linux 5.8
			return path
		}
		err := unix.Statx(unix.AT_FDCWD, filepath.Dir(path), 0, unix.STATX_BASIC_STATS, &parent)
		if err != nil || own.Dev_major != parent.Dev_major || own.Dev_minor != parent.Dev_minor {
			return path
		}
	}
	return path
}
