// Package waitcontrolplane waits until a started control plane answers, and names what keeps it from answering.
package waitcontrolplane

import (
	"context"

	"kubeadm/internal/flow"
	"kubeadm/internal/health"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Init waits for the kubelet and the components of a first control plane. The step is done as soon as the API
// server answers.
func Init(onceReady flow.Step) flow.Phase {
	return flow.Phase{
		Name:  "wait-control-plane",
		Short: "Wait until the control plane answers",
		Long:  "Wait until the kubelet has started the control plane's components and they say that they are well.",
		Phases: []flow.Phase{
			{Run: func(ctx context.Context, e *flow.Env) error {
				n, err := e.Node(ctx)
				if err != nil {
					return err
				}
				e.Say("waiting for the kubelet to run the control plane from %q", n.Paths.Manifests())
				return health.Before(ctx, e, n, []string{release.ControllerManager, release.Scheduler},
					func() error { return first(ctx, e, n) })
			}},
			{Before: []flow.Step{onceReady}, Run: func(ctx context.Context, e *flow.Env) error {
				n, as, err := e.Cluster(ctx)
				if err != nil {
					return err
				}
				return health.Patiently(ctx, e, n, func() error {
					if err := accounts(ctx, e, n, as); err != nil {
						return err
					}
					return others(ctx, e, n)
				})
			}},
		},
	}
}

// Join waits for the components of one more control plane.
var Join = flow.Phase{
	Name:  "wait-control-plane",
	Short: "Wait until this control plane answers",
	Long:  "Wait until this control plane's components say that they are well.",
	When:  node.IsControlPlane,
	Run: func(ctx context.Context, e *flow.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		return health.Patiently(ctx, e, n, func() error {
			as := state.Identity{Kubeconfig: n.Paths.Kubeconfig("admin.conf"), Server: n.LocalServer()}
			if err := e.Await(ctx, health.APIServer(n, as)); err != nil {
				return health.ComponentHelp(n, err)
			}
			return others(ctx, e, n)
		})
	},
}

// first waits for the kubelet and the API server, and starts what can do something only now.
func first(ctx context.Context, e *flow.Env, n *node.Node) error {
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, n)); err != nil {
		return health.KubeletHelp(err)
	}
	admin := state.Identity{Kubeconfig: n.Paths.Kubeconfig("super-admin.conf"), Server: n.LocalServer()}
	if _, err := e.World.Stat(ctx, admin.Kubeconfig); err != nil {
		admin.Kubeconfig = n.Paths.Kubeconfig("admin.conf")
	}
	if err := e.Await(ctx, health.APIServer(n, admin)); err != nil {
		return health.ComponentHelp(n, err)
	}
	return e.Due(ctx)
}

// others waits for the components that serve nobody but themselves.
func others(ctx context.Context, e *flow.Env, n *node.Node) error {
	for _, c := range []struct {
		name, port, path string
	}{
		{release.ControllerManager, "10257", "/healthz"},
		{release.Scheduler, "10259", "/livez"},
	} {
		url, err := address(ctx, e.World, n, c.name, c.port)
		if err != nil {
			return err
		}
		if err := e.Await(ctx, health.Component(n, c.name, url+c.path)); err != nil {
			return health.ComponentHelp(n, err)
		}
	}
	return nil
}
