package change

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/state"
)

// Unmount unmounts everything below a directory. A mount on the directory itself stays.
type Unmount struct {
	Dir   string
	Flags []string // of umount2(2): MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW
}

// Target names the mounts below the directory.
func (c Unmount) Target() string { return "mounts:" + c.Dir }

func (c Unmount) String() string { return fmt.Sprintf("unmount everything below %q", c.Dir) }

// Done reports whether nothing is mounted there.
func (c Unmount) Done(ctx context.Context, r state.Reader) (bool, error) {
	all, err := r.Mounts(ctx, c.Dir)
	for _, m := range all {
		if strings.HasPrefix(m, c.Dir+"/") {
			return false, err
		}
	}
	return err == nil, err
}

// Inverse is ErrIrreversible: the mounts belong to Pods that are gone.
func (c Unmount) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}

// PullImage pulls an image into the container runtime.
type PullImage struct {
	Socket, Ref string
	Always      bool // pull even if the image is present
}

// Target names the image.
func (c PullImage) Target() string { return "image:" + c.Ref }

func (c PullImage) String() string { return fmt.Sprintf("pull image %q", c.Ref) }

// Cancelable marks the change: the runtime cleans up after a canceled pull.
func (c PullImage) Cancelable() {}

// Done reports whether the image is present and Always is not set.
func (c PullImage) Done(ctx context.Context, r state.Reader) (bool, error) {
	if c.Always {
		return false, nil
	}
	return r.Image(ctx, c.Socket, c.Ref)
}

// Inverse is ErrIrreversible: other containers may use the image.
func (c PullImage) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}

// PullError is the error of a failed image pull.
type PullError struct {
	Ref string // of the image
	// Cause is one line. It names the image only if the registry's answer is about that image, so
	// that several pulls that fail for the same reason have the same Cause.
	Cause string
	// Unreachable is set if the registry cannot be reached, so that pulls of its other images fail
	// too.
	Unreachable bool
	Err         error
}

func (e *PullError) Error() string { return e.Cause }

// Unwrap returns the container runtime's own error.
func (e *PullError) Unwrap() error { return e.Err }

// RemoveContainers removes the Pod sandboxes of Kubernetes with their containers.
type RemoveContainers struct {
	Socket string
	// Component limits the change to the static Pod of that control plane component; empty: all
	// Pods.
	Component string
	// GracePeriod is how long containers may take to exit after SIGTERM; zero kills them at once.
	GracePeriod time.Duration
}

// Target names the Pods of the container runtime.
func (c RemoveContainers) Target() string { return "containers:" + c.Socket + ":" + c.Component }

func (c RemoveContainers) String() string {
	if c.Component != "" {
		return "remove the containers of Pod " + c.Component
	}
	return "remove all Kubernetes containers"
}

// Matches reports whether the change removes the sandbox.
func (c RemoveContainers) Matches(s state.Sandbox) bool {
	return c.Component == "" || s.Component == c.Component
}

// Done reports whether no such sandbox is left.
func (c RemoveContainers) Done(ctx context.Context, r state.Reader) (bool, error) {
	existing, err := r.Sandboxes(ctx, c.Socket)
	return err == nil && !slices.ContainsFunc(existing, c.Matches), err
}

// Inverse is ErrIrreversible.
func (c RemoveContainers) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}
