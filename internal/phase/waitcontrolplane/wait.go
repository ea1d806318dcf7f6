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

// Init waits for the kubelet and the components of a first control plane, and gives the
// administrator his rights as soon as the API server answers.
var Init = flow.Phase{
	Name:  "wait-control-plane",
	Short: "Wait until the control plane answers",
	Long:  "Wait until the kubelet has started the control plane's components and they say that they are well.",
	Run: func(ctx context.Context, e *flow.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		e.Say("waiting for the kubelet to run the control plane from %q", n.Paths.Manifests())
		err = health.WaitCheckingFiles(ctx, e, n, []string{release.ControllerManager, release.Scheduler}, func() error { return waitForAPIServer(ctx, e, n) })
		if err != nil {
			return err
		}
		return health.WaitCheckingFiles(ctx, e, n, nil, func() error { return waitForComponents(ctx, e, n) })
	},
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
		return health.WaitCheckingFiles(ctx, e, n, nil, func() error {
			as := state.Identity{Kubeconfig: n.Paths.Kubeconfig("admin.conf"), Server: n.LocalServer()}
			if err := e.Await(ctx, health.APIServer(n, as)); err != nil {
				return health.WithComponentHints(n, err)
			}
			return waitForComponents(ctx, e, n)
		})
	},
}

// waitForAPIServer waits for the kubelet and the API server. What can do something only now is let go, and the administrator
// gets his rights.
func waitForAPIServer(ctx context.Context, e *flow.Env, n *node.Node) error {
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, n)); err != nil {
		return health.WithKubeletHints(err)
	}
	admin := state.Identity{Kubeconfig: n.Paths.Kubeconfig("super-admin.conf"), Server: n.LocalServer()}
	if _, err := e.World.Stat(ctx, admin.Kubeconfig); err != nil {
		admin.Kubeconfig = n.Paths.Kubeconfig("admin.conf")
	}
	if err := e.Await(ctx, health.APIServer(n, admin)); err != nil {
		return health.WithComponentHints(n, err)
	}
	if err := e.Due(ctx); err != nil {
		return err
	}
	as, err := e.Admin(ctx)
	if err != nil {
		return err
	}
	return createControllerAccounts(ctx, e, n, as)
}

// waitForComponents waits for the components that serve nobody but themselves.
func waitForComponents(ctx context.Context, e *flow.Env, n *node.Node) error {
	for _, c := range []struct {
		name, port, path string
	}{
		{release.ControllerManager, "10257", "/healthz"},
		{release.Scheduler, "10259", "/livez"},
	} {
		url, err := findURL(ctx, e.World, n, c.name, c.port)
		if err != nil {
			return err
		}
		if err := e.Await(ctx, health.Component(n, c.name, url+c.path)); err != nil {
			return health.WithComponentHints(n, err)
		}
	}
	return nil
}
