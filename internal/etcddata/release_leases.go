package etcddata

import (
	"context"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// ReleaseLeaders releases the leader election Leases of kube-controller-manager and kube-scheduler whose
// holders are from before a restore, so that the components that run now lead at once: otherwise they
// wait until the Lease of a process that is gone has expired. The revision is the one with which the
// restored data begin. A Lease that was written later has a live holder and is kept. Clocks are not
// compared: those of the old control plane may be wrong.
func ReleaseLeaders(ctx context.Context, e *engine.Env, as state.Identity, revision int64) error {
	for _, component := range []string{release.ControllerManager, release.Scheduler} {
		free := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
			Name: component}}
		free.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
		if err := e.Do(ctx, change.MutateObject{Object: free, As: as,
			Mutate: func(u *unstructured.Unstructured) error {
				version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
				holder, _, _ := unstructured.NestedString(u.Object, "spec", "holderIdentity")
				if err != nil || version > revision || holder == "" {
					return nil // this control plane leads by now
				}
				return unstructured.SetNestedField(u.Object, "", "spec", "holderIdentity")
			}}); err != nil {
			return err
		}
	}
	return nil
}
