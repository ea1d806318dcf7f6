package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/state"
)

// SetOwner sets user and group of a file, or of a directory and all below it.
type SetOwner struct {
	Path      string
	UID, GID  int
	Name      string      // of user and group, for messages
	Mode      fs.FileMode // of a single file; zero: unchanged
	Recursive bool        // recursive
}

// Target names the owner of the file.
func (c SetOwner) Target() string { return "owner:" + c.Path }

func (c SetOwner) String() string {
	return fmt.Sprintf("set the owner of %q to %s", c.Path, c.Name)
}

// Matches reports whether a file has that owner and mode.
func (c SetOwner) Matches(f state.FileInfo) bool {
	return f.UID == c.UID && f.GID == c.GID && (c.Mode == 0 || f.Mode.Perm() == c.Mode)
}

// Done reports whether the file, and with Recursive all files below it, have that owner.
func (c SetOwner) Done(ctx context.Context, r state.Reader) (bool, error) {
	info, err := r.Stat(ctx, c.Path)
	if err != nil {
		return false, err
	}
	if !c.Matches(info) || !c.Recursive {
		return c.Matches(info), nil
	}
	return c.isDoneBelow(ctx, r, c.Path)
}

// isDoneBelow ignores a directory that is removed meanwhile by another program.
func (c SetOwner) isDoneBelow(ctx context.Context, r state.Reader, dir string) (bool, error) {
	files, err := r.ReadDir(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	for _, f := range files {
		if !c.Matches(f) {
			return false, nil
		}
		if !f.Mode.IsDir() {
			continue
		}
		if done, err := c.isDoneBelow(ctx, r, f.Path); err != nil || !done {
			return false, err
		}
	}
	return err == nil, err
}

// Inverse restores the owner. It is ErrIrreversible if the files below a directory have several
// owners.
func (c SetOwner) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	info, err := r.Stat(ctx, c.Path)
	if err != nil {
		return nil, err
	}
	inverse := SetOwner{
		Path: c.Path, UID: info.UID, GID: info.GID, Name: fmt.Sprintf("%d:%d", info.UID, info.GID),
		Recursive: c.Recursive,
	}
	if !c.Recursive {
		inverse.Mode = info.Mode.Perm()
		return inverse, nil
	}
	if single, err := inverse.Done(ctx, r); err != nil || !single {
		return nil, errors.Join(err, ErrIrreversible)
	}
	return inverse, nil
}
