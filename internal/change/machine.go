package change

import (
	"context"
	"fmt"
	"slices"
	"time"

	"kubeadm/internal/state"
)

// RemoveImage removes an image from the container runtime, with all its references.
type RemoveImage struct{ Socket, Ref string }

// Target names the image.
func (c RemoveImage) Target() string { return "image:" + c.Ref }

func (c RemoveImage) String() string { return fmt.Sprintf("remove image %q", c.Ref) }

// Done reports whether the runtime does not have the image.
func (c RemoveImage) Done(ctx context.Context, r state.Reader) (bool, error) {
	present, err := r.Image(ctx, c.Socket, c.Ref)
	return err == nil && !present, err
}

// Inverse pulls the image again.
func (c RemoveImage) Inverse(context.Context, state.Reader) (Change, error) {
	return PullImage{Socket: c.Socket, Ref: c.Ref}, nil
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

// RemoveContainers removes the Pod sandboxes of Kubernetes with their containers, or only stops these.
type RemoveContainers struct {
	Socket string
	// Component limits the change to the static Pod of that control plane component; empty: all
	// Pods.
	Component string
	// GracePeriod is how long containers may take to exit after SIGTERM; zero kills them at once.
	GracePeriod time.Duration
	// KeepPod stops the containers and removes nothing: the kubelet restarts them in the same Pod. It
	// notices that even if it has not yet seen that they run.
	KeepPod bool
}

// ExitPeriod is the GracePeriod of a component whose Pod is replaced. kube-apiserver stops listening at
// once, and then waits for watches to end.
const ExitPeriod = 5 * time.Second

// Target names the Pods of the container runtime.
func (c RemoveContainers) Target() string { return "containers:" + c.Socket + ":" + c.Component }

func (c RemoveContainers) String() string {
	if c.KeepPod {
		return "stop the containers of Pod " + c.Component
	}
	if c.Component != "" {
		return "remove the containers of Pod " + c.Component
	}
	return "remove all Kubernetes containers"
}

// Matches reports whether the change concerns the sandbox.
func (c RemoveContainers) Matches(s state.Sandbox) bool {
	return c.Component == "" || s.Component == c.Component
}

// Done reports whether no such sandbox is left. A container that is to be restarted always runs.
func (c RemoveContainers) Done(ctx context.Context, r state.Reader) (bool, error) {
	if c.KeepPod {
		return false, nil
	}
	existing, err := r.Sandboxes(ctx, c.Socket)
	return err == nil && !slices.ContainsFunc(existing, c.Matches), err
}

// Inverse is ErrIrreversible.
func (c RemoveContainers) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}
