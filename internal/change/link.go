package change

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/state"
)

// MakeLink creates a symbolic link, or replaces the link or file of that name atomically. Missing
// directories above it are created with mode 0755.
type MakeLink struct{ Path, To string }

// Target names the link.
func (c MakeLink) Target() string { return FileTarget(c.Path) }

func (c MakeLink) String() string { return fmt.Sprintf("link %q to %q", c.Path, c.To) }

// Done reports whether there is a link that leads to the contents of the file.
func (c MakeLink) Done(ctx context.Context, r state.Reader) (bool, error) {
	info, err := r.Lstat(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode.Type() != fs.ModeSymlink {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	found, err := r.ReadFile(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	wanted, err := r.ReadFile(ctx, c.To)
	return err == nil && bytes.Equal(found, wanted), err
}

// Inverse removes a link that did not exist. Otherwise it is ErrIrreversible.
func (c MakeLink) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	if _, err := r.Lstat(ctx, c.Path); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, ErrIrreversible)
	}
	return Remove{Path: c.Path}, nil
}
