package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Node is met when the kubelet has renewed its Lease since it was started, and its Node is ready, if that is required.
// Both times are of this machine's clock.
func Node(n *node.Node, as state.Identity, started time.Time, mustBeReady bool) world.Condition {
	lease := state.Ref{GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Namespace: corev1.NamespaceNodeLease, Name: n.Name, As: as}
	return world.Condition{
		Name:    "Node " + n.Name + " to be ready",
		Timeout: n.Timeouts.Kubelet,
		Check: func(ctx context.Context, r state.Reader) error {
			u, err := r.Object(ctx, lease)
			if err != nil {
				return err
			}
			var l coordinationv1.Lease
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &l); err != nil {
				return untrusted.Error(err)
			}
			if l.Spec.RenewTime == nil || l.Spec.RenewTime.Time.Before(started) {
				return errors.New("the kubelet has not renewed its Lease since it was restarted")
			}
			if !mustBeReady {
				return nil
			}
			notReady, err := CheckNode(ctx, r, as, n.Name)
			return cmp.Or(err, notReady)
		},
	}
}

// CheckNode returns in notReady why a Node is not ready.
func CheckNode(ctx context.Context, r state.Reader, as state.Identity, name string) (notReady, err error) {
	u, err := r.Object(ctx, state.Ref{GVK: state.NodeKind, Name: name, As: as})
	if err != nil {
		return nil, err
	}
	var n corev1.Node
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &n); err != nil {
		return nil, untrusted.Error(err)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil, nil
		}
		if c.Type == corev1.NodeReady {
			return fmt.Errorf("it is not ready: %s", untrusted.Line(c.Message)), nil
		}
	}
	return errors.New("it has no condition Ready"), nil
}
