package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/state"
)

// Rename renames a file or directory to a name in the same file system that does not exist yet. The
// name is on disk when the change is done.
type Rename struct{ From, To string }

// Target names the new name.
func (c Rename) Target() string { return FileTarget(c.To) }

func (c Rename) String() string { return fmt.Sprintf("rename %q to %q", c.From, c.To) }

// Done reports whether the old name is gone and the new one exists. It is an error if neither exists.
func (c Rename) Done(ctx context.Context, r state.Reader) (bool, error) {
	if _, err := r.Lstat(ctx, c.From); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	_, err := r.Lstat(ctx, c.To)
	return err == nil, err
}

// Inverse renames it back.
func (c Rename) Inverse(context.Context, state.Reader) (Change, error) {
	return Rename{From: c.To, To: c.From}, nil
}
