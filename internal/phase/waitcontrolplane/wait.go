// Package waitcontrolplane waits until a started control plane is healthy, and names what keeps it
// from that.
package waitcontrolplane

import (
	"cmp"
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Init waits for the kubelet and the components of a first control plane, and lets each component
// start when it can do its work.
var Init = engine.Phase{
	Name:  string(phaseindex.WaitControlPlane),
	Short: "Wait until the control plane is healthy",
	Long:  "Wait until the kubelet has started the control plane components and they are healthy.",

	UsesAddress: true,
	Points: []engine.Milestone{phaseindex.StartEtcd, phaseindex.StartAPIServer,
		phaseindex.APIServerAnswers, phaseindex.AdminAuthorized, phaseindex.StartControllerManager,
		phaseindex.StartScheduler, phaseindex.RBACComplete},
	Phases: []engine.Phase{
		{Run: waitForKubelet},
		{After: []engine.Milestone{phaseindex.Etcd.End()}, Run: func(ctx context.Context, e *engine.Env) error {
			return e.Reach(ctx, phaseindex.StartEtcd)
		}},
		{After: []engine.Milestone{phaseindex.Certs.End(), phaseindex.Kubeconfigs.End(),
			phaseindex.ControlPlane.End()}, Run: waitForAPIServer},
		{Run: waitForComponents},
	},
}

// waitForKubelet waits for the kubelet, which can start etcd and the API server then.
func waitForKubelet(ctx context.Context, e *engine.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	e.Say("waiting for the kubelet to run the control plane from %q", n.Paths.Manifests())
	isKubelets := func(f phaseindex.File) bool {
		return f.Phase == phaseindex.KubeletStart || f.Path == n.Paths.KubeletKubeconfig() ||
			f.Path == n.Paths.Cert(pki.ClusterCA)
	}
	err = health.WaitCheckingFiles(ctx, e, n, isKubelets,
		func() error { return e.Await(ctx, health.Kubelet(ctx, e.World, n)) })
	if err != nil {
		return health.WithKubeletHints(n.Platform, err)
	}
	return nil
}

// quickBootstrap is how long an API server may take to create the first RBAC objects, up to those for
// kube-controller-manager, if the last ones, among them those for kube-scheduler, are to exist before
// the kubelet has started that. An API server creates one after the other, and the last ones take
// three quarters of the time of the first. A kubelet starts no container within 0.3 s after it has
// seen a manifest, as it waits that long for the volumes (docs/decisions/0022).
const quickBootstrap = 400 * time.Millisecond

// waitForAPIServer waits for the API server. On the way it reaches the points at which other phases
// and components can begin.
func waitForAPIServer(ctx context.Context, e *engine.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	as := state.Identity{Kubeconfig: n.Paths.Kubeconfig("super-admin.conf"),
		Server: n.LocalServerURL()}
	if _, err := e.World.Stat(ctx, as.Kubeconfig); err != nil {
		as.Kubeconfig = n.Paths.Kubeconfig("admin.conf")
	}
	var bootstrap time.Time // when the API server began to create its RBAC objects, or just after
	isAdminAuthorized := false
	authorizes := health.AuthorizingAPIServer(n, as)
	check := authorizes.Check
	authorizes.Check = func(ctx context.Context, r state.Reader) error {
		err := check(ctx, r)
		answer, answers := errors.AsType[*state.NotLiveError](err)
		if !answers {
			return err
		}
		if bootstrap.IsZero() && answer.FailsOnly([]string{health.RBACCheck}) {
			bootstrap = r.Now()
		}
		reached := e.Reach(ctx, phaseindex.APIServerAnswers)
		if reached == nil && !isAdminAuthorized && hasNamespaces(ctx, e, r) {
			isAdminAuthorized = true
			reached = e.Reach(ctx, phaseindex.AdminAuthorized)
		}
		return cmp.Or(reached, err)
	}
	if err := e.Reach(ctx, phaseindex.StartAPIServer); err != nil {
		return err
	}
	later := health.ExceptManifests(n, release.ControllerManager, release.Scheduler)
	return health.WaitCheckingFiles(ctx, e, n, later, func() error {
		if err := e.Await(ctx, authorizes); err != nil {
			return health.WithComponentHints(n, err)
		}
		startable := []engine.Milestone{phaseindex.StartControllerManager}
		if !bootstrap.IsZero() && e.World.Now().Sub(bootstrap) < quickBootstrap {
			startable = append(startable, phaseindex.StartScheduler)
		}
		if err := e.Reach(ctx, phaseindex.APIServerAnswers); err != nil {
			return err
		}
		// A kubelet that kubelet-finalize has just restarted may miss a manifest that is written before
		// it watches their directory.
		if err := e.AwaitMilestones(ctx, phaseindex.KubeletFinalize.End()); err != nil {
			return err
		}
		if err := e.Await(ctx, health.Kubelet(ctx, e.World, n)); err != nil {
			return health.WithKubeletHints(n.Platform, err)
		}
		if err := e.Reach(ctx, startable...); err != nil {
			return err
		}
		if err := e.Await(ctx, health.APIServer(n, as)); err != nil {
			return health.WithComponentHints(n, err)
		}
		return e.Reach(ctx, phaseindex.StartScheduler, phaseindex.RBACComplete,
			phaseindex.AdminAuthorized)
	})
}

// hasNamespaces reports whether the API server lets the admin read the namespaces in which phases
// create objects.
func hasNamespaces(ctx context.Context, e *engine.Env, r state.Reader) bool {
	as, err := e.Admin(ctx)
	for _, name := range []string{metav1.NamespaceSystem, metav1.NamespacePublic} {
		if err == nil {
			_, err = r.Object(ctx, state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("Namespace"),
				Name: name, As: as})
		}
	}
	return err == nil
}

// Join waits for the components of one more control plane.
var Join = engine.Phase{
	Name:  string(phaseindex.WaitControlPlane),
	Short: "Wait until this control plane node is healthy",
	Long:  "Wait until the components of this control plane node are healthy.",
	When:  node.IsControlPlane,
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		as := state.Identity{Kubeconfig: n.Paths.Kubeconfig("admin.conf"), Server: n.LocalServerURL()}
		err = health.WaitCheckingFiles(ctx, e, n, health.ExceptManifests(n), func() error {
			if err := e.Await(ctx, health.APIServer(n, as)); err != nil {
				return health.WithComponentHints(n, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return waitForComponents(ctx, e)
	},
}

// waitForComponents waits for kube-controller-manager and kube-scheduler.
func waitForComponents(ctx context.Context, e *engine.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	return health.WaitCheckingFiles(ctx, e, n, health.ExceptManifests(n), func() error {
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
	})
}
