package change

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/state"
)

// Unmount unmounts everything below a directory. A mount on the directory itself stays.
type Unmount struct {
	Dir   string
	Flags []string // of umount2(2): MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW
	// Itself unmounts what is mounted on Dir, which may be a file, and nothing else.
	Itself bool
}

// Target names the mounts below the directory, or the one on it.
func (c Unmount) Target() string {
	if c.Itself {
		return "mount:" + c.Dir
	}
	return "mounts:" + c.Dir
}

func (c Unmount) String() string {
	if c.Itself {
		return fmt.Sprintf("unmount %q", c.Dir)
	}
	return fmt.Sprintf("unmount everything below %q", c.Dir)
}

// Matches reports whether the change unmounts that mount point.
func (c Unmount) Matches(point string) bool {
	if c.Itself {
		return point == c.Dir
	}
	return strings.HasPrefix(point, strings.TrimSuffix(c.Dir, "/")+"/")
}

// Done reports whether nothing is mounted there.
func (c Unmount) Done(ctx context.Context, r state.Reader) (bool, error) {
	all, err := r.Mounts(ctx, c.Dir)
	return err == nil && !slices.ContainsFunc(all, c.Matches), err
}

// Inverse is ErrIrreversible: the mounts belong to Pods that are gone.
func (c Unmount) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}
