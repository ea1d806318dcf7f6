package change

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/state"
)

// ErrDisruptionBudget is the error of an eviction that a PodDisruptionBudget does not allow now.
var ErrDisruptionBudget = errors.New("the PodDisruptionBudget does not allow the eviction now")

// EvictPod asks the API server to evict a Pod, which then exits within its grace period.
type EvictPod struct {
	Namespace, Name string
	UID             string // another Pod of the same name is not evicted
	As              state.Identity
}

// Ref names the Pod.
func (c EvictPod) Ref() state.Ref {
	return state.Ref{GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Namespace: c.Namespace,
		Name: c.Name, As: c.As}
}

// Target names the Pod.
func (c EvictPod) Target() string { return c.Ref().Target() }

func (c EvictPod) String() string { return fmt.Sprintf("evict Pod %s/%s", c.Namespace, c.Name) }

// Done reports whether the Pod is being deleted, or does not exist.
func (c EvictPod) Done(ctx context.Context, r state.Reader) (bool, error) {
	pod, err := r.Object(ctx, c.Ref())
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && (string(pod.GetUID()) != c.UID || pod.GetDeletionTimestamp() != nil), err
}

// Inverse is ErrIrreversible: the controller of the Pod creates another one.
func (c EvictPod) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}
