package staticpod

import (
	"context"
	"fmt"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Restart restarts the containers of components whose manifests do not change, so that they read
// new certificates. It restarts one component after the other, in the given order, and waits until
// each is healthy. It returns the error of the first that is not; nothing can be restored then.
func (r Replacement) Restart(ctx context.Context, e *engine.Env, components ...string) error {
	if len(components) == 0 {
		return nil
	}
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, r.Node)); err != nil {
		return health.WithKubeletHints(err)
	}
	for _, component := range components {
		if err := r.restartOne(ctx, e, component); err != nil {
			return fmt.Errorf("restarting %s: %w", component, err)
		}
	}
	return nil
}

func (r Replacement) restartOne(ctx context.Context, e *engine.Env, component string) error {
	file := r.Node.Paths.Manifest(component)
	pod, err := Read(ctx, e, r.Node, component)
	if err != nil {
		return err
	}
	all, err := e.World.Containers(ctx, r.Node.CRISocket)
	if err != nil {
		return err
	}
	var previous []string
	for _, c := range all {
		if c.Component == component {
			previous = append(previous, c.ID)
		}
	}
	wait, err := health.StaticPod{
		Component: component, Pod: pod, As: r.As, IgnoreExits: previous,
		Matches: func(c state.Container) bool { return !slices.Contains(previous, c.ID) },
	}.Condition(r.Node, r.Node.Timeouts.Upgrade)
	if err != nil {
		return err
	}
	e.Say("restarting the static Pod of %s", component)
	err = e.Do(ctx, change.RemoveContainers{
		Socket: r.Node.CRISocket, Component: component, GracePeriod: gracePeriod(pod),
	})
	if err == nil {
		err = e.Await(ctx, wait)
	}
	if arg := health.RejectedArgument(err); arg != "" {
		return problem.New("", err, fmt.Sprintf("fix %s in %s", arg, file))
	}
	return err
}
