//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// accountsLockTimeout is how long another program may hold the lock of the account files.
const accountsLockTimeout = 15 * time.Second

// setAccounts replaces the account files under the lock that useradd(8) uses too. It writes the
// groups first: a user whose group does not exist looks like a damaged account.
func setAccounts(ctx context.Context, c change.SetAccounts) error {
	unlock, err := lockAccounts(ctx, filepath.Join(c.Dir, ".pwd.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	old, err := change.ReadAccounts(ctx, Machine{}, c.Dir)
	if err != nil {
		return err
	}
	after, err := c.Edit(old)
	if err != nil {
		return err
	}
	for _, file := range []change.WriteFile{
		{Path: c.GroupFile(), Data: after.Group, Mode: 0o644},
		{Path: c.PasswdFile(), Data: after.Passwd, Mode: 0o644},
	} {
		file.RemoveTemporary = true // safe, as the lock excludes other writers
		if err := writeFile(ctx, file); err != nil {
			return err
		}
	}
	return nil
}

// lockAccounts acquires the lock of lckpwdf(3).
func lockAccounts(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	deadline := time.Now().Add(accountsLockTimeout)
	for {
		// An open file description lock excludes other goroutines of this process too.
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case ctx.Err() != nil, time.Now().After(deadline), !errors.Is(err, unix.EAGAIN) &&
			!errors.Is(err, unix.EACCES):
			f.Close()
			return nil, fmt.Errorf("locking the accounts of this machine with %s: %w", path, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// setOwner follows symbolic links in the path, but none below it.
func setOwner(c change.SetOwner) error {
	if c.Recursive {
		d, real, err := openDir(c.Path, 0)
		if err != nil {
			return err
		}
		defer d.Close()
		if err := checkNotSystemDir(d, real, c.Path); err != nil {
			return err
		}
		return setTreeOwner(c, d, real)
	}
	p, err := resolvePath(c.Path, 0)
	if err != nil {
		return err
	}
	defer p.close()
	fd, err := unix.Openat(int(p.dir.Fd()), p.name,
		unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return p.pathError("open", err)
	}
	f := os.NewFile(uintptr(fd), p.path)
	defer f.Close()
	// The mode before the owner, so that a secret is never readable by other users.
	if c.Mode != 0 {
		if err := f.Chmod(c.Mode.Perm()); err != nil {
			return err
		}
	}
	return f.Chown(c.UID, c.GID)
}

// setTreeOwner sets the owner of the contents before that of the directory itself, so that files
// that the new owner creates are not affected.
func setTreeOwner(c change.SetOwner, d *os.File, path string) error {
	entries, err := d.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		below := filepath.Join(path, e.Name())
		fd, err := unix.Openat(int(d.Fd()), e.Name(),
			unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			sub := os.NewFile(uintptr(fd), below)
			err = errors.Join(setTreeOwner(c, sub, below), sub.Close())
		} else if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			err = unix.Fchownat(int(d.Fd()), e.Name(), c.UID, c.GID, unix.AT_SYMLINK_NOFOLLOW)
		}
		if errors.Is(err, unix.ENOENT) {
			continue // removed meanwhile
		}
		if err != nil {
			return fmt.Errorf("setting the owner of %s to %s: %w", below, c.Name, err)
		}
	}
	return d.Chown(c.UID, c.GID)
}
