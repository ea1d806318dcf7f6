package staticpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// mayRestore reports whether the previous manifest of a component may be restored after a failure.
// Every component but an etcd of another version reads what the new one has written.
func (r Replacement) mayRestore(ctx context.Context, e *engine.Env, s *step, cause error) bool {
	if !s.changesEtcdVersion() {
		return true
	}
	current, err := state.ReadOptional(ctx, e.World, s.file)
	return err == nil && (digest(current) == digest(s.previous) || r.hasFailed(ctx, e, s, cause))
}

// hasFailed reports whether there is evidence that a component does not run with its new manifest:
// it crashes again and again, or never had a container. That it was not healthy in time is none,
// since its disk may be slow.
func (r Replacement) hasFailed(ctx context.Context, e *engine.Env, s *step, cause error) bool {
	return r.isCrashing(ctx, e, s,
		func(c state.Container) bool { return !slices.Contains(s.otherPodUIDs, c.PodUID) }, cause)
}

// isCrashing judges by the matching containers of a component and by the error of the wait for
// them.
func (r Replacement) isCrashing(ctx context.Context, e *engine.Env, s *step,
	matches func(state.Container) bool, cause error) bool {
	newest, err := r.awaitExit(ctx, e, s.component, matches, cause)
	switch {
	case err != nil:
		return false // it runs, or that is not known
	case newest.ID == "":
		return s.state == stepUnhealthy
	case s.changesEtcdVersion() && slices.Contains(endedBySignal, newest.ExitCode):
		return false
	}
	return world.IsPermanent(cause)
}

// endedBySignal are the exit codes of a container that was ended from outside, such as by the
// kubelet because its probes were not answered in time: SIGKILL and SIGTERM.
var endedBySignal = []int32{128 + 9, 128 + 15}

// exitLimit is how long a container that crashes again and again may run.
const exitLimit = 30 * time.Second

// awaitExit returns the newest of the matching containers, zero if there is none, and an error if
// one is running. It waits for the exit only if the component is known to crash: between two exits
// its container runs for a moment.
func (r Replacement) awaitExit(ctx context.Context, e *engine.Env, component string,
	matches func(state.Container) bool, cause error) (newest state.Container, err error) {
	exited := world.Condition{
		Name:    fmt.Sprintf("the container of %s to exit", component),
		Timeout: exitLimit,
		Check: func(ctx context.Context, reader state.Reader) error {
			all, err := reader.Containers(ctx, r.Node.CRISocket)
			if err != nil {
				return err
			}
			newest = state.Container{}
			for _, c := range all { // oldest first
				if c.Component != component || c.Name != component || !matches(c) {
					continue
				}
				if newest = c; c.Running {
					return errors.New("it is running")
				}
			}
			return nil
		},
	}
	if !world.IsPermanent(cause) {
		return newest, exited.Check(ctx, e.World)
	}
	err = e.Await(ctx, exited)
	return newest, err
}
