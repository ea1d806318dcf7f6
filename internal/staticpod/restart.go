package staticpod

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Restart restarts the containers of components whose manifests do not change, so that they read
// new certificates. It restarts one component after the other, in the given order, and waits until
// each is healthy. It returns the error of the first that is not; nothing can be restored then.
func (r Replacement) Restart(ctx context.Context, e *engine.Env, components ...string) error {
	if len(components) == 0 {
		return nil
	}
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, r.Node)); err != nil {
		return health.WithKubeletHints(e.Local.Platform, err)
	}
	for _, component := range components {
		if err := r.restartOne(ctx, e, component); err != nil {
			return fmt.Errorf("restarting %s: %w", component, err)
		}
	}
	return nil
}

func (r Replacement) restartOne(ctx context.Context, e *engine.Env, component string) error {
	pod, err := Read(ctx, e, r.Node, component)
	if err != nil {
		return err
	}
	wait, err := r.newRestartCondition(ctx, e, component, pod)
	if err != nil {
		return err
	}
	e.Say("restarting the static Pod of %s", component)
	period := gracePeriod(pod)
	if component == release.APIServer { // it waits for watches to end
		period = exitPeriod(pod)
	}
	err = e.Do(ctx, change.RemoveContainers{
		Socket: r.Node.CRISocket, Component: component, GracePeriod: period,
	})
	if err == nil {
		err = e.Await(ctx, wait)
	}
	return r.explainRestart(component, err)
}

// newRestartCondition is met when other containers of the component than the present ones are
// healthy.
func (r Replacement) newRestartCondition(ctx context.Context, e *engine.Env, component string,
	pod *corev1.Pod) (world.Condition, error) {
	all, err := e.World.Containers(ctx, r.Node.CRISocket)
	if err != nil {
		return world.Condition{}, err
	}
	var previous []string
	for _, c := range all {
		if c.Component == component {
			previous = append(previous, c.ID)
		}
	}
	return health.StaticPod{
		Component: component, Pod: pod, As: r.As, IgnoreExits: previous,
		Matches: func(c state.Container) bool { return !slices.Contains(previous, c.ID) },
	}.Condition(r.Node, r.Node.Timeouts.Upgrade)
}

func (r Replacement) explainRestart(component string, err error) error {
	if arg := health.RejectedArgument(err); arg != "" {
		return problem.New(err, fmt.Sprintf("fix %s in %s", arg,
			r.Node.Paths.Manifest(component)))
	}
	return err
}

// RestartEtcd restarts etcd together with the kube-apiserver beside it. While its etcd restarts,
// that would answer requests with errors; while it is down, a load balancer uses others.
func (r Replacement) RestartEtcd(ctx context.Context, e *engine.Env) error {
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, r.Node)); err != nil {
		return health.WithKubeletHints(e.Local.Platform, err)
	}
	var removals []change.Change
	var waits []world.Condition
	for _, component := range []string{release.APIServer, release.Etcd} {
		pod, err := Read(ctx, e, r.Node, component)
		if err != nil {
			return err
		}
		wait, err := r.newRestartCondition(ctx, e, component, pod)
		if err != nil {
			return err
		}
		removals = append(removals, change.RemoveContainers{Socket: r.Node.CRISocket,
			Component: component, GracePeriod: exitPeriod(pod)})
		waits = append(waits, wait)
	}
	e.Say("restarting the static Pods of etcd and kube-apiserver")
	if err := e.Do(ctx, removals...); err != nil {
		return err
	}
	for i, component := range []string{release.Etcd, release.APIServer} {
		if err := r.explainRestart(component, e.Await(ctx, waits[len(waits)-1-i])); err != nil {
			return fmt.Errorf("restarting %s: %w", component, err)
		}
	}
	return nil
}
