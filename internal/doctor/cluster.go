package doctor

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/upgrade"
)

// cluster is what the API server knows, as far as a user may read it. Each query is made once, by the
// first check that needs it.
type cluster struct {
	as       state.Identity // without a kubeconfig if there is none
	nodeName string         // of this machine

	api      preflight.Query[bool]       // whether the API server answers; the error says why not
	stored   preflight.Query[*node.Node] // this machine by what the cluster stores
	versions preflight.Query[versions]   // of what runs in the cluster
	nodes    preflight.Query[[]corev1.Node]
}

// versions are the versions of what runs in the cluster, and what is odd about them.
type versions struct {
	*upgrade.Cluster
	warnings []string
}

func newCluster(as state.Identity, local node.Local) *cluster {
	c := &cluster{as: as, nodeName: local.Name}
	c.api = preflight.Query[bool](func(ctx context.Context, r state.Reader) (bool, error) {
		err := r.Livez(ctx, as)
		return err == nil, err
	}).Cached()
	c.stored = preflight.Query[*node.Node](
		func(ctx context.Context, r state.Reader) (*node.Node, error) {
			n, _, err := existing.ReadNode(ctx, r, as, local, release.Target{})
			return n, err
		}).Cached()
	c.versions = preflight.Query[versions](
		func(ctx context.Context, r state.Reader) (versions, error) {
			found, warnings, err := upgrade.ReadClusterOf(ctx, r, as, c.nodes)
			return versions{found, warnings}, err
		}).Cached()
	c.nodes = preflight.Query[[]corev1.Node](
		func(ctx context.Context, r state.Reader) ([]corev1.Node, error) {
			return listNodes(ctx, r, as)
		}).Cached()
	return c
}

// listNodes lists the Nodes with what the checks read of them, as a cluster may have thousands: names, the label of
// control plane nodes, conditions that are not as they should be, addresses and versions.
func listNodes(ctx context.Context, r state.Reader, as state.Identity) ([]corev1.Node, error) {
	slim := func(u *unstructured.Unstructured) bool {
		upgrade.KeepRole(u)
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		conditions = slices.DeleteFunc(conditions, func(c any) bool {
			m, ok := c.(map[string]any)
			return ok && m["type"] != string(corev1.NodeReady) && m["status"] != string(corev1.ConditionTrue)
		})
		return unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions") == nil
	}
	return state.ListOf[corev1.Node](ctx, r, state.Query{GVK: state.NodeKind, As: as, Keep: slim,
		Fields: []string{"status.conditions", "status.addresses", "status.daemonEndpoints", upgrade.KubeletVersionField}})
}

// skipOnError reports whether a server could not be read, and skips the check then. A user without
// the right to read an object is told how to name another one.
func (c *cluster) skipOnError(rep *preflight.Report, err error) bool {
	switch {
	case err == nil:
		return false
	case apierrors.IsForbidden(err):
		rep.Skip("the user of %s may not read this: set --kubeconfig to an administrator's kubeconfig",
			c.as.Kubeconfig)
	default:
		rep.Skip("%v", err)
	}
	return true
}

// readNodes lists the nodes, or this one alone if the user may not list them.
func (c *cluster) readNodes(ctx context.Context, r state.Reader) ([]corev1.Node, error) {
	all, err := c.nodes(ctx, r)
	if !apierrors.IsForbidden(err) {
		return all, err
	}
	u, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: c.nodeName, As: c.as})
	if err != nil {
		return nil, err
	}
	var own corev1.Node
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &own)
	return []corev1.Node{own}, err
}

// needAPI returns checks that run only if the API server answers. Where it does not, the check
// APIServer says so and these are skipped.
func needAPI(c *cluster, checks ...preflight.Check) []preflight.Check {
	for i, check := range checks {
		checks[i].Run = func(ctx context.Context, r state.Reader, rep *preflight.Report) {
			if c.as.Kubeconfig == "" {
				rep.Skip("this machine has no kubeconfig for a cluster")
				return
			}
			if _, err := c.api(ctx, r); err != nil && !apierrors.IsForbidden(err) {
				rep.Skip("the cluster cannot be read: see check %s", apiServerCheck)
				return
			}
			check.Run(ctx, r, rep)
		}
	}
	return checks
}
