package rebuild

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// OldControlPlane names the Nodes of the old control plane, or removes them with what belongs to them.
func OldControlPlane(b *etcdsnapshot.Backup, remove bool) engine.Phase {
	return engine.Phase{
		Name: "old-control-plane", Hidden: true,
		Short: "Find what is left of the old control plane",
		OnlyWith: []string{"wait-control-plane", "upload-config", "mark-control-plane",
			"bootstrap-token", "addon"},
		Run: func(ctx context.Context, e *engine.Env) error {
			n, as, err := e.Cluster(ctx)
			if err != nil {
				return err
			}
			names, err := findOld(ctx, e, b, state.Query{GVK: state.NodeKind,
				LabelSelector: node.ControlPlaneLabel, As: as}, n.Name)
			if err != nil || len(names) == 0 {
				return err
			}
			if !remove {
				reportOld(e, names)
				return nil
			}
			return removeOld(ctx, e, as, names)
		},
	}
}

// ReleaseLeaders lets this control plane lead although the restored Leases name the leaders of the old one.
func ReleaseLeaders(b *etcdsnapshot.Backup) engine.Phase {
	return engine.Phase{
		Name: "release-leaders", Hidden: true,
		Short:    "Release the leader election Leases of the old control plane",
		OnlyWith: []string{"wait-control-plane"},
		Run: func(ctx context.Context, e *engine.Env) error {
			as, err := e.Admin(ctx)
			if err != nil {
				return err
			}
			return etcddata.ReleaseLeaders(ctx, e, as, b.Manifest.Snapshot.Revision+change.RevisionBump)
		},
	}
}

// findOld returns the names of control plane Nodes that existed when the backup was made. A Node with
// the name of this machine is its own by now.
func findOld(ctx context.Context, e *engine.Env, b *etcdsnapshot.Backup, q state.Query,
	own string) (names []string, err error) {
	all, err := e.List(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("listing the Nodes of the old control plane: %w", err)
	}
	for _, u := range all {
		if u.GetName() != own && !u.GetCreationTimestamp().After(b.Manifest.Time) {
			names = append(names, u.GetName())
		}
	}
	slices.Sort(names)
	return names, nil
}

func reportOld(e *engine.Env, names []string) {
	what := fmt.Sprintf("the cluster still has the Nodes of its old control plane (%s); once these machines are gone",
		untrusted.Line(strings.Join(names, ", ")))
	e.Warn("%s", untrusted.CommandHint(what, "kubectl delete node", names...))
}

// removeOld deletes the Nodes, their Leases, those of their API servers, and the lock of the cluster if
// one of them held it. The addresses of their API servers leave the Service kubernetes by themselves.
func removeOld(ctx context.Context, e *engine.Env, as state.Identity, names []string) error {
	leases, err := findLeases(ctx, e, as, names)
	if err != nil {
		return err
	}
	for _, name := range names {
		e.Say("removing the old control plane node %s", untrusted.Line(name))
		ref := state.Ref{GVK: state.NodeKind, Name: name, As: as}
		lease := state.Ref{GVK: clusterlock.LeaseKind(), Namespace: corev1.NamespaceNodeLease, Name: name, As: as}
		if err := e.Do(ctx, change.DeleteObject{Ref: ref}, change.DeleteObject{Ref: lease}); err != nil {
			return err
		}
	}
	for _, ref := range leases {
		if err := e.Do(ctx, change.DeleteObject{Ref: ref}); err != nil {
			return err
		}
	}
	return nil
}

// findLeases returns the Leases in kube-system that API servers of these nodes, or a command that one of
// them ran, have left.
func findLeases(ctx context.Context, e *engine.Env, as state.Identity, names []string) ([]state.Ref, error) {
	all, err := e.List(ctx, state.Query{GVK: clusterlock.LeaseKind(), Namespace: metav1.NamespaceSystem, As: as})
	if err != nil {
		return nil, fmt.Errorf("listing the Leases of the old control plane: %w", err)
	}
	var refs []state.Ref
	for _, u := range all {
		isServer := u.GetLabels()["apiserver.kubernetes.io/identity"] == "kube-apiserver" &&
			slices.Contains(names, u.GetLabels()[corev1.LabelHostname])
		holder, _, _ := unstructured.NestedString(u.Object, "spec", "holderIdentity")
		if isServer || u.GetName() == clusterlock.LeaseName && slices.Contains(names, holder) {
			refs = append(refs, state.Ref{GVK: clusterlock.LeaseKind(), Namespace: u.GetNamespace(),
				Name: u.GetName(), As: as})
		}
	}
	return refs, nil
}
