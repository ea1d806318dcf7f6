package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// createJob checks whether the cluster can run a Job, without creating one: whether the API
// server would create it, and whether the controller manager and the scheduler, which would do the
// rest, are running. It needs no schedulable node.
func (c *Cluster) createJob(as state.Identity) preflight.Check {
	run := func(ctx context.Context, r state.Reader, rep *preflight.Report) {
		err := r.TryCreate(ctx, c.healthCheckJob(r.Now()), as)
		switch {
		case err == nil:
		case apierrors.IsBadRequest(err) &&
			strings.Contains(err.Error(), "does not support dry run"):
			rep.Warn("find that webhook: "+
				"kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
				"cannot tell whether a Job could be created, because an admission webhook does not support a "+
					"server-side dry run: %v", err)
		default:
			rep.Fail("check why the API server or an admission webhook rejects it",
				"no Job can be created in namespace kube-system: %v", err)
		}
		for _, l := range c.leaderChecks(as) {
			l.run(ctx, r, rep)
		}
	}
	return preflight.Check{Name: "CreateJob", Run: run}
}

// LeaderChecks check whether kube-controller-manager and kube-scheduler have leaders.
func (c *Cluster) LeaderChecks(as state.Identity) []preflight.Check {
	var list []preflight.Check
	for _, l := range c.leaderChecks(as) {
		list = append(list, preflight.Check{Name: "Leader-" + l.component, Run: l.run})
	}
	return list
}

func (c *Cluster) leaderChecks(as state.Identity) []leaderCheck {
	return []leaderCheck{
		{release.ControllerManager, c.Config.ControllerManager.Args, as, isAbandoned},
		{release.Scheduler, c.Config.Scheduler.Args, as, isAbandoned},
	}
}

// leaderTimeout is how long a component may take to become leader: without an API server it exits,
// and the kubelet waits longer before each restart.
const leaderTimeout = 90 * time.Second

// Leaders holds once kube-controller-manager and kube-scheduler have leaders. After an upgrade that
// has just ended, or was interrupted, or a reboot, they may have none for a moment. A Lease that has
// run out, by the clock of this machine, must be seen to be renewed.
func (c *Cluster) Leaders(as state.Identity) world.Condition {
	first := map[string]time.Time{} // when each Lease had been renewed when this wait began
	checks := c.leaderChecks(as)
	for i := range checks {
		component := checks[i].component
		checks[i].isStale = func(now, renewed time.Time) bool {
			if _, ok := first[component]; !ok {
				first[component] = renewed
			}
			return now.Sub(renewed) > leaseDuration && renewed.Equal(first[component])
		}
	}
	return world.Condition{
		Name:    "the leaders of kube-controller-manager and kube-scheduler",
		Timeout: leaderTimeout,
		Check: func(ctx context.Context, r state.Reader) error {
			rep := preflight.NewReport("CreateJob")
			for _, l := range checks {
				l.run(ctx, r, rep)
			}
			return rep.Result(nil).Err()
		},
	}
}

// leaderCheck checks whether a component has a leader, by the Lease of its leader election.
type leaderCheck struct {
	component string
	args      []node.Arg // extra arguments of the component
	as        state.Identity
	isStale   func(now, renewed time.Time) bool // whether a Lease that was renewed then has no leader now
}

// leaseDuration is the default of --leader-elect-lease-duration: after it another instance takes over.
const leaseDuration = 15 * time.Second

// isAbandoned judges a Lease by one look. A leader renews it every two seconds, but the clocks of two
// machines may differ.
func isAbandoned(now, renewed time.Time) bool { return now.Sub(renewed) > time.Minute }

func (l leaderCheck) run(ctx context.Context, r state.Reader, rep *preflight.Report) {
	for _, arg := range l.args {
		if strings.HasPrefix(arg.Name, "leader-elect") {
			return // there may be no Lease, or one of another name
		}
	}
	u, err := r.Object(ctx, state.Ref{
		GVK:       coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Namespace: metav1.NamespaceSystem, Name: l.component, As: l.as,
	})
	var found coordinationv1.Lease
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &found)
	}
	if err != nil {
		rep.Warn("check that Leases can be read: kubectl get leases --namespace kube-system",
			"cannot tell whether %s is running: %v", l.component, err)
		return
	}
	remedy := "check its log: kubectl logs --namespace kube-system --selector component=" +
		l.component
	if found.Spec.HolderIdentity == nil || *found.Spec.HolderIdentity == "" ||
		found.Spec.RenewTime == nil {
		rep.Fail(remedy, "%s has no leader, so no Pods would be created", l.component)
		return
	}
	now, renewed := r.Now(), found.Spec.RenewTime.Time
	if l.isStale(now, renewed) {
		holder, _, _ := strings.Cut(*found.Spec.HolderIdentity, "_")
		rep.Fail(remedy, "%s has had no leader since %s (now it is %s): the instance on %s does "+
			"not renew Lease kube-system/%s", l.component, renewed.UTC().Format(time.RFC3339),
			now.UTC().Format(time.RFC3339), holder, l.component)
	}
}

// healthCheckJob is what upstream's kubeadm creates to see whether the cluster runs Pods.
func (c *Cluster) healthCheckJob(now time.Time) *batchv1.Job {
	images := release.Images{Repository: c.Config.ImageRepository}
	if target, err := release.ParseTarget("v" + c.Version.String()); err == nil {
		images.Target = target
	}
	const name = "upgrade-health-check"
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", name, now.UnixMilli()), Namespace: metav1.NamespaceSystem,
		},
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32(0)),
			TTLSecondsAfterFinished: new(int32(65)),
			ActiveDeadlineSeconds:   new(int64(65)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				SecurityContext: &corev1.PodSecurityContext{
					RunAsUser: new(int64(999)), RunAsGroup: new(int64(999)),
					RunAsNonRoot: new(true),
				},
				Tolerations: []corev1.Toleration{
					{Key: node.ControlPlaneLabel, Effect: corev1.TaintEffectNoSchedule},
				},
				Containers: []corev1.Container{
					{Name: name, Image: images.Pause(), Args: []string{"-v"}},
				},
			}},
		},
	}
}

// controlPlaneNodesReady fails if a control plane node is not ready.
func controlPlaneNodesReady(as state.Identity) preflight.Check {
	run := func(ctx context.Context, r state.Reader, rep *preflight.Report) {
		found, err := r.List(ctx, state.Query{
			GVK: state.NodeKind, LabelSelector: node.ControlPlaneLabel, As: as, Fields: []string{"status.conditions"},
		})
		if err != nil {
			rep.Fail("check that Nodes can be read: kubectl get nodes",
				"reading the control plane nodes: %v", err)
			return
		}
		var notReady []string
		for _, u := range found {
			var n corev1.Node
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n)
			if err != nil {
				rep.Fail(untrusted.CommandHint("look at the object", "kubectl get node --output yaml", u.GetName()),
					"reading Node %s: %v", u.GetName(), err)
				return
			}
			for _, condition := range n.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
					notReady = append(notReady, n.Name)
				}
			}
		}
		if len(notReady) > 0 {
			rep.Fail(untrusted.CommandHint("check why", "kubectl describe node", notReady[0]),
				"control plane nodes are not ready: %s", strings.Join(notReady, ", "))
		}
	}
	return preflight.Check{Name: "ControlPlaneNodesReady", Run: run}
}

// StaticPodManifests is a check that this machine has the static Pod manifests of the components.
func StaticPodManifests(paths node.Paths, components []string) preflight.Check {
	run := func(ctx context.Context, r state.Reader, rep *preflight.Report) {
		var missing []string
		for _, name := range components {
			there, err := state.Exists(ctx, r, paths.Manifest(name))
			if err != nil {
				rep.Fail("check that the directory of static Pod manifests can be read", "%v", err)
			} else if !there {
				missing = append(missing, paths.Manifest(name))
			}
		}
		if len(missing) > 0 {
			remedy := "restore them from a backup, such as those in " + paths.Tmp()
			if slices.Contains(missing, paths.Manifest(release.APIServer)) {
				remedy = "run the command on a control plane node"
			}
			rep.Fail(remedy, "control plane manifests are missing on this machine: %s",
				strings.Join(missing, ", "))
		}
	}
	return preflight.Check{Name: "StaticPodManifest", Run: run}
}
