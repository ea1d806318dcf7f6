// Package waitcontrolplane waits until a started control plane is healthy, and names what keeps it
// from that.
package waitcontrolplane

import (
	"context"
	"errors"

	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// The milestones of Init.
const (
	// Serving is reached when the API server answers. For about a second, until it creates its RBAC
	// objects, it has little to do.
	Serving engine.Milestone = "serving"
	// Live is reached when the API server is live and the step is done.
	Live engine.Milestone = "live"
)

// Init waits for the kubelet and the components of a first control plane. The step is done as soon
// as the API server is live.
func Init(onceLive engine.Step) engine.Phase {
	return engine.Phase{
		Name:  "wait-control-plane",
		Short: "Wait until the control plane is healthy",
		Long:  "Wait until the kubelet has started the control plane's components and they are healthy.",
		Phases: []engine.Phase{
			{Run: func(ctx context.Context, e *engine.Env) error {
				n, err := e.Node(ctx)
				if err != nil {
					return err
				}
				e.Say("waiting for the kubelet to run the control plane from %q",
					n.Paths.Manifests())
				later := []string{release.ControllerManager, release.Scheduler}
				return health.WaitCheckingFiles(ctx, e, n, later, func() error {
					return waitForAPIServer(ctx, e, n)
				})
			}},
			{Before: []engine.Step{onceLive}, Run: func(ctx context.Context, e *engine.Env) error {
				n, as, err := e.Cluster(ctx)
				if err != nil {
					return err
				}
				e.Reach(Live)
				return health.WaitCheckingFiles(ctx, e, n, nil, func() error {
					if err := createControllerAccounts(ctx, e, n, as); err != nil {
						return err
					}
					return waitForComponents(ctx, e, n)
				})
			}},
		},
	}
}

// Join waits for the components of one more control plane.
var Join = engine.Phase{
	Name:  "wait-control-plane",
	Short: "Wait until this control plane node is healthy",
	Long:  "Wait until the components of this control plane node are healthy.",
	When:  node.IsControlPlane,
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		return health.WaitCheckingFiles(ctx, e, n, nil, func() error {
			as := state.Identity{Kubeconfig: n.Paths.Kubeconfig("admin.conf"),
				Server: n.LocalServerURL()}
			if err := e.Await(ctx, health.APIServer(n, as)); err != nil {
				return health.WithComponentHints(n, err)
			}
			return waitForComponents(ctx, e, n)
		})
	},
}

// waitForAPIServer waits for the kubelet and the API server. Then it does the deferred work.
func waitForAPIServer(ctx context.Context, e *engine.Env, n *node.Node) error {
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, n)); err != nil {
		return health.WithKubeletHints(err)
	}
	admin := state.Identity{Kubeconfig: n.Paths.Kubeconfig("super-admin.conf"),
		Server: n.LocalServerURL()}
	if _, err := e.World.Stat(ctx, admin.Kubeconfig); err != nil {
		admin.Kubeconfig = n.Paths.Kubeconfig("admin.conf")
	}
	live := health.APIServer(n, admin)
	isLive := live.Check
	live.Check = func(ctx context.Context, r state.Reader) error {
		err := isLive(ctx, r)
		if answer := new(state.NotLiveError); errors.As(err, &answer) {
			e.Reach(Serving)
		}
		return err
	}
	if err := e.Await(ctx, live); err != nil {
		return health.WithComponentHints(n, err)
	}
	e.Reach(Serving)
	// A kubelet that kubelet-finalize has just restarted may miss a manifest that is written before it
	// watches their directory.
	if err := e.Await(ctx, health.Kubelet(ctx, e.World, n)); err != nil {
		return health.WithKubeletHints(err)
	}
	return e.RunDeferred(ctx)
}

// waitForComponents waits for kube-controller-manager and kube-scheduler.
func waitForComponents(ctx context.Context, e *engine.Env, n *node.Node) error {
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
