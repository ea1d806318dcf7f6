package etcddata

import (
	"context"
	"fmt"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	isOld := func(u *unstructured.Unstructured) bool {
		version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
		holder, _, _ := unstructured.NestedString(u.Object, "spec", "holderIdentity")
		return err == nil && version <= revision && holder != ""
	}
	for _, component := range []string{release.ControllerManager, release.Scheduler} {
		free := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
			Name: component}}
		free.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
		found, err := e.Object(ctx, state.RefOf(free, as))
		if apierrors.IsNotFound(err) || err == nil && !isOld(found) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading the leader election Lease of %s: %w", component, err)
		}
		if err := e.Do(ctx, change.MutateObject{Object: free, As: as,
			Mutate: func(u *unstructured.Unstructured) error {
				if !isOld(u) { // this control plane leads by now
					return nil
				}
				return unstructured.SetNestedField(u.Object, "", "spec", "holderIdentity")
			}}); err != nil {
			return err
		}
	}
	return nil
}
