package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

// Rollout is met once all Pods of a DaemonSet or Deployment are of its latest template and available, or
// if it does not exist.
func Rollout(ref state.Ref, timeout time.Duration) world.Condition {
	return world.Condition{
		Name:    "the new Pods of " + ref.String(),
		Timeout: timeout, MaxPause: world.LongPause,
		Check: func(ctx context.Context, r state.Reader) error {
			u, err := r.Object(ctx, ref)
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err == nil {
				err = checkRollout(u)
			}
			if err != nil {
				return problem.New(err, untrusted.CommandHint("look at its Pods",
					"kubectl get pods --namespace", ref.Namespace))
			}
			return nil
		},
	}
}

// checkRollout is an error unless all Pods of a DaemonSet or Deployment are of the latest template
// and available.
func checkRollout(u *unstructured.Unstructured) error {
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(u.Object, fields...)
		return n
	}
	if !IsObserved(u) {
		return errors.New("its controller has not seen the change yet")
	}
	wanted, updated := number("spec", "replicas"), number("status", "updatedReplicas")
	available, total := number("status", "availableReplicas"), number("status", "replicas")
	if u.GetKind() == "DaemonSet" {
		wanted = number("status", "desiredNumberScheduled")
		updated, total = number("status", "updatedNumberScheduled"), wanted
		available = number("status", "numberAvailable")
	}
	if updated < wanted || available < wanted || total > wanted {
		return fmt.Errorf("%d of %d Pods are new, %d are available", updated, wanted, available)
	}
	return nil
}

// NewPods is the number of Pods of a DaemonSet or Deployment that are of its latest template, as far as its controller has
// seen that.
func NewPods(u *unstructured.Unstructured) int64 {
	if !IsObserved(u) {
		return 0
	}
	number := func(fields ...string) int64 {
		n, _, _ := unstructured.NestedInt64(u.Object, fields...)
		return n
	}
	return number("status", "updatedReplicas") + number("status", "updatedNumberScheduled") // it has one of them
}

// IsObserved reports whether the controller of a DaemonSet or Deployment has seen its latest template.
func IsObserved(u *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	return seen >= u.GetGeneration()
}
