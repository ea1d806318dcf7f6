package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/state"
)

// RemoveControlGroup removes a control group (cgroup) and those below it, which have no processes.
type RemoveControlGroup struct{ Path string } // such as /sys/fs/cgroup/kubepods

// Target names the directory of the control group.
func (c RemoveControlGroup) Target() string { return FileTarget(c.Path) }

func (c RemoveControlGroup) String() string { return fmt.Sprintf("remove control group %q", c.Path) }

// Done reports whether there is no such control group.
func (c RemoveControlGroup) Done(ctx context.Context, r state.Reader) (bool, error) {
	_, err := r.Stat(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// Inverse is ErrIrreversible: the kubelet creates it again.
func (c RemoveControlGroup) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}
