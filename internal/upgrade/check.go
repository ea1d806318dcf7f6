package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coredns/corefile-migration/migration"
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
)

// Checks are what must be so before an upgrade: CoreDNS can be upgraded to the version that comes
// with the tag, and the cluster works. Their names are public.
func (c *Cluster) Checks(as state.Identity, paths node.Paths, coreDNSTag string) []preflight.Check {
	return []preflight.Check{
		c.unsupportedPlugins(coreDNSTag),
		c.corefileMigration(coreDNSTag),
		c.createJob(as),
		controlPlaneNodesReady(as),
		staticPodManifest(paths),
	}
}

// CoreDNSTag is the image tag of CoreDNS that an upgrade to the version deploys.
func (c *Cluster) CoreDNSTag(target release.Target) string {
	images := release.Images{Target: target, DNS: release.ImageChoice{Tag: c.Config.DNS.ImageTag}}
	return images.CoreDNSTag()
}

// coreDNSVersions returns the versions between which the Corefile would be migrated; ok is false if
// it stays as it is.
func (c *Cluster) coreDNSVersions(tag string) (from, to string, ok bool) {
	from, to = strings.TrimPrefix(c.CoreDNS, "v"), strings.TrimPrefix(tag, "v")
	return from, to, !c.Config.DNS.Disabled && c.Corefile != nil && from != to
}

// notMigrated are the hints for a Corefile that cannot be migrated.
const notMigrated = "correct ConfigMap kube-system/coredns; or ignore this check and " +
	"see to CoreDNS yourself; or set dns.disabled: true in ConfigMap kube-system/kubeadm-config"

func (c *Cluster) unsupportedPlugins(tag string) preflight.Check {
	run := func(_ context.Context, _ state.Reader, rep *preflight.Report) {
		from, to, ok := c.coreDNSVersions(tag)
		if !ok {
			return
		}
		notices, err := migration.Unsupported(from, to, *c.Corefile)
		if err != nil {
			rep.Fail(notMigrated, "%s", c.unknownMigration(from, to, err))
			return
		}
		var plugins []string
		for _, n := range notices {
			if text := strings.TrimSpace(n.Plugin + " " + n.Option); !slices.Contains(plugins,
				text) {
				plugins = append(plugins, text)
			}
		}
		if len(plugins) > 0 {
			rep.Fail(notMigrated,
				"the Corefile has plugins or options for which there is no migration "+
					"from CoreDNS %s to %s: %s", from, to, strings.Join(plugins, ", "))
		}
	}
	return preflight.Check{Name: "CoreDNSUnsupportedPlugins", Run: run}
}

func (c *Cluster) corefileMigration(tag string) preflight.Check {
	run := func(_ context.Context, _ state.Reader, rep *preflight.Report) {
		if c.CoreDNS == "" && !c.Config.DNS.Disabled {
			rep.Warn("to keep it away, set dns.disabled: true in ConfigMap kube-system/kubeadm-config",
				"CoreDNS is not deployed; the upgrade will deploy it")
		}
		from, to, ok := c.coreDNSVersions(tag)
		if !ok || from == "" {
			return
		}
		if _, err := migration.Migrate(from, to, *c.Corefile, false); err != nil {
			rep.Fail(notMigrated, "%s", c.unknownMigration(from, to, err))
		}
	}
	return preflight.Check{Name: "CoreDNSMigration", Run: run}
}

// unknownMigration says why a Corefile cannot be migrated.
func (c *Cluster) unknownMigration(from, to string, err error) string {
	if from == "" {
		return "the version of CoreDNS that the Corefile was written for is unknown, " +
			"as CoreDNS is not deployed"
	}
	return fmt.Sprintf("the Corefile cannot be migrated from CoreDNS %s to %s: %v", from, to, err)
}

// createJob asks whether the cluster can run a Job without leaving one behind: whether the API
// server would create it, and whether the controller manager and the scheduler, which would do the
// rest, are at work. It needs no schedulable node.
func (c *Cluster) createJob(as state.Identity) preflight.Check {
	run := func(ctx context.Context, r state.Reader, rep *preflight.Report) {
		err := r.TryCreate(ctx, c.healthCheckJob(r.Now()), as)
		switch {
		case err == nil:
		case apierrors.IsBadRequest(err) &&
			strings.Contains(err.Error(), "does not support dry run"):
			rep.Warn("", "whether a Job could be created is unknown, as an admission webhook takes no "+
				"server-side dry run: %v", err)
		default:
			rep.Fail("see why the API server or an admission webhook refuses it",
				"no Job can be created in namespace kube-system: %v", err)
		}
		checkLease(ctx, lease{r, as, release.ControllerManager, c.Config.ControllerManager}, rep)
		checkLease(ctx, lease{r, as, release.Scheduler, c.Config.Scheduler}, rep)
	}
	return preflight.Check{Name: "CreateJob", Run: run}
}

// lease is the Lease by which the instances of a component elect their leader.
type lease struct {
	state     state.Reader
	as        state.Identity
	component string
	config    node.Component
}

// staleLease is how long a leader may fail to renew its Lease. It renews it every two seconds; the
// clocks of two machines may differ.
const staleLease = time.Minute

// checkLease asks whether the component has a leader. Without leader election there is nothing to
// ask.
func checkLease(ctx context.Context, l lease, rep *preflight.Report) {
	for _, name := range []string{"leader-elect", "leader-elect-resource-name",
		"leader-elect-resource-namespace"} {
		if _, ok := node.LastArg(l.config.Args, name); ok {
			return // there may be none, or under another name
		}
	}
	ref := state.Ref{
		GVK:       coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Namespace: metav1.NamespaceSystem, Name: l.component, As: l.as,
	}
	u, err := l.state.Object(ctx, ref)
	if apierrors.IsNotFound(err) {
		rep.Warn("", "%s has no Lease kube-system/%s: whether it is at work is unknown",
			l.component, l.component)
		return
	}
	var found coordinationv1.Lease
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &found)
	}
	if err != nil {
		rep.Warn("", "whether %s is at work is unknown: %v", l.component, err)
		return
	}
	holder := ""
	if found.Spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(*found.Spec.HolderIdentity, "_")
	}
	remedy := fmt.Sprintf(
		"see its log: kubectl logs --namespace kube-system --selector component=%s",
		l.component)
	now := l.state.Now()
	switch renewed := found.Spec.RenewTime; {
	case holder == "" || renewed == nil:
		rep.Fail(remedy, "%s has no leader, so that no Pods would be created", l.component)
	case now.Sub(renewed.Time) > staleLease:
		rep.Fail(remedy, "%s has had no leader since %s (it is %s now): the one on %s no longer renews "+
			"Lease kube-system/%s", l.component, renewed.UTC().Format(time.RFC3339),
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
				Tolerations: []corev1.Toleration{{Key: ControlPlaneLabel,
					Effect: corev1.TaintEffectNoSchedule}},
				Containers: []corev1.Container{{Name: name, Image: images.Pause(),
					Args: []string{"-v"}}},
			}},
		},
	}
}

// controlPlaneNodesReady asks whether a control-plane node says that it is not ready.
func controlPlaneNodesReady(as state.Identity) preflight.Check {
	run := func(ctx context.Context, r state.Reader, rep *preflight.Report) {
		found, err := r.List(ctx,
			state.Query{GVK: state.NodeKind, LabelSelector: ControlPlaneLabel + "=", As: as})
		if err != nil {
			rep.Fail("", "reading the control-plane nodes: %v", err)
			return
		}
		var notReady []string
		for _, u := range found {
			var n corev1.Node
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object,
				&n); err != nil {
				rep.Fail("", "reading Node %s: %v", u.GetName(), err)
				return
			}
			for _, condition := range n.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
					notReady = append(notReady, n.Name)
				}
			}
		}
		if len(notReady) > 0 {
			rep.Fail("see why: kubectl describe node "+notReady[0],
				"control-plane nodes are not ready: %s", strings.Join(notReady, ", "))
		}
	}
	return preflight.Check{Name: "ControlPlaneNodesReady", Run: run}
}

// staticPodManifest asks whether the control plane of this machine runs as static Pods.
func staticPodManifest(paths node.Paths) preflight.Check {
	run := func(ctx context.Context, r state.Reader, rep *preflight.Report) {
		var missing []string
		for _, name := range []string{release.APIServer, release.ControllerManager,
			release.Scheduler} {
			there, err := state.Exists(ctx, r, paths.Manifest(name))
			if err != nil {
				rep.Fail("", "%v", err)
			} else if !there {
				missing = append(missing, paths.Manifest(name))
			}
		}
		if len(missing) > 0 {
			rep.Fail("run the command on a control-plane node",
				"manifests of the control plane do not exist on this machine: %s",
				strings.Join(missing, ", "))
		}
	}
	return preflight.Check{Name: "StaticPodManifest", Run: run}
}
