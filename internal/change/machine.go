package change

import (
	"context"
	"fmt"
	"kubeadm/internal/state"
	"slices"
	"strings"
	"time"
)

// Unmount makes nothing be mounted below a folder; a mount on the folder itself stays.
type Unmount struct {
	Below string
	Flags []string // of umount2(2): MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW
}

// Target is the folder's mounts.
func (c Unmount) Target() string { return "mounts:" + c.Below }

func (c Unmount) String() string { return fmt.Sprintf("unmount what is mounted below %q", c.Below) }

// Done tells whether nothing is mounted there.
func (c Unmount) Done(ctx context.Context, r state.Reader) (bool, error) {
	all, err := r.Mounts(ctx, c.Below)
	for _, m := range all {
		if strings.HasPrefix(m, c.Below+"/") {
			return false, err
		}
	}
	return err == nil, err
}

// Inverse is ErrOneWay: the mounts belong to Pods that are gone.
func (c Unmount) Inverse(context.Context, state.Reader) (Change, error) { return nil, ErrOneWay }

// PullImage makes the container runtime hold an image.
type PullImage struct {
	Socket, Ref string
	Always      bool // ask the registry even if the image is present
}

// Target is the image.
func (c PullImage) Target() string { return "image:" + c.Ref }

func (c PullImage) String() string { return fmt.Sprintf("pull image %q", c.Ref) }

// Breakable says that the runtime takes back a pull that was broken off.
func (c PullImage) Breakable() {}

// Done tells whether the image is there and need not be asked for again.
func (c PullImage) Done(ctx context.Context, r state.Reader) (bool, error) {
	if c.Always {
		return false, nil
	}
	return r.Image(ctx, c.Socket, c.Ref)
}

// Inverse is ErrOneWay: an image may be in use by others, so it stays.
func (c PullImage) Inverse(context.Context, state.Reader) (Change, error) { return nil, ErrOneWay }

// PullError is why a container runtime could not pull an image.
type PullError struct {
	Ref string // of the image
	// Cause is why, in one line that names the image only if the registry's answer is about it: what keeps several images
	// away has one Cause.
	Cause string
	// Unreachable says that the registry cannot be reached, so that it has no other image either.
	Unreachable bool
	Err         error
}

func (e *PullError) Error() string { return e.Cause }

// Unwrap returns the container runtime's own error.
func (e *PullError) Unwrap() error { return e.Err }

// RemoveContainers makes the container runtime hold no Pod sandbox of Kubernetes, and so none of their containers.
type RemoveContainers struct {
	Socket string
	// Component limits the change to the static Pod of that part of the control plane; empty: all Pods.
	Component string
	// Grace is how long containers may take to end by themselves; they are killed at once if it is zero.
	Grace time.Duration
}

// Target is the runtime's Pods.
func (c RemoveContainers) Target() string { return "containers:" + c.Socket + ":" + c.Component }

func (c RemoveContainers) String() string {
	if c.Component != "" {
		return "remove the containers of Pod " + c.Component
	}
	return "remove all Kubernetes containers"
}

// Wants reports whether the sandbox is one of those to be removed.
func (c RemoveContainers) Wants(s state.Sandbox) bool {
	return c.Component == "" || s.Component == c.Component
}

// Done tells whether no such sandbox is left.
func (c RemoveContainers) Done(ctx context.Context, r state.Reader) (bool, error) {
	left, err := r.Sandboxes(ctx, c.Socket)
	return err == nil && !slices.ContainsFunc(left, c.Wants), err
}

// Inverse is ErrOneWay.
func (c RemoveContainers) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrOneWay
}
