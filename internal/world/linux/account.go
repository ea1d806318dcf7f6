package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
)

// accountsBusy is how long others may hold the accounts.
const accountsBusy = 15 * time.Second

// setAccounts writes the files as a whole, under the lock that useradd(8) and its like take too. The groups come first: a
// user without a group would be one that cannot be told from a damaged one.
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
		{Path: c.GroupFile(), Data: after.Group, Mode: 0o644}, {Path: c.PasswdFile(), Data: after.Passwd, Mode: 0o644},
	} {
		if err := writeFile(file); err != nil {
			return err
		}
	}
	return nil
}

// lockAccounts locks as lckpwdf(3) does.
func lockAccounts(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	deadline := time.Now().Add(accountsBusy)
	for {
		// A lock of this open file, and not of the process, keeps out others of this process too.
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case ctx.Err() != nil, time.Now().After(deadline), !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES):
			f.Close()
			return nil, fmt.Errorf("locking the accounts of this machine by %s: %w", path, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// setOwner follows a symbolic link at the path itself, and none below it.
func setOwner(c change.SetOwner) error {
	if !c.Below {
		return own(c, c.Path)
	}
	return filepath.WalkDir(c.Path, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, c.UID, c.GID)
		}
		if errors.Is(err, fs.ErrNotExist) && path != c.Path {
			return nil // it went away meanwhile
		}
		return err
	})
}

// own narrows the mode before it gives the file away.
func own(c change.SetOwner, path string) error {
	if c.Mode != 0 {
		if err := os.Chmod(path, c.Mode.Perm()); err != nil {
			return err
		}
	}
	return os.Chown(path, c.UID, c.GID)
}
