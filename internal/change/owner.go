package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"kubeadm/internal/state"
)

// SetOwner gives a file, or a folder with all below it, to a user and a group.
type SetOwner struct {
	Path     string
	UID, GID int
	Name     string      // of user and group, for people
	Mode     fs.FileMode // of a single file; zero: as it is
	Below    bool        // the folder and what is below it
}

// Target is the file's owner.
func (c SetOwner) Target() string { return "owner:" + c.Path }

func (c SetOwner) String() string { return fmt.Sprintf("give %q to %s", c.Path, c.Name) }

// Fits tells whether a file already is as it should be.
func (c SetOwner) Fits(f state.FileInfo) bool {
	return f.UID == c.UID && f.GID == c.GID && (c.Mode == 0 || f.Mode.Perm() == c.Mode)
}

// Done tells whether all of it is owned so.
func (c SetOwner) Done(ctx context.Context, r state.Reader) (bool, error) {
	info, err := r.Stat(ctx, c.Path)
	if err != nil {
		return false, err
	}
	if !c.Fits(info) || !c.Below {
		return c.Fits(info), nil
	}
	return c.doneBelow(ctx, r, c.Path)
}

// doneBelow passes over what goes away meanwhile: somebody may be at work there.
func (c SetOwner) doneBelow(ctx context.Context, r state.Reader, dir string) (bool, error) {
	inside, err := r.ReadDir(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	for _, f := range inside {
		if !c.Fits(f) {
			return false, nil
		}
		if !f.Mode.IsDir() {
			continue
		}
		if done, err := c.doneBelow(ctx, r, f.Path); err != nil || !done {
			return false, err
		}
	}
	return err == nil, err
}

// Inverse gives it back to its owner; ErrOneWay where what is below a folder has several.
func (c SetOwner) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	info, err := r.Stat(ctx, c.Path)
	if err != nil {
		return nil, err
	}
	back := SetOwner{Path: c.Path, UID: info.UID, GID: info.GID, Name: fmt.Sprintf("%d:%d", info.UID, info.GID), Below: c.Below}
	if !c.Below {
		back.Mode = info.Mode.Perm()
		return back, nil
	}
	if single, err := back.Done(ctx, r); err != nil || !single {
		return nil, errors.Join(err, ErrOneWay)
	}
	return back, nil
}
