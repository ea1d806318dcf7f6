package discovery

import (
	"cmp"
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/flow"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Object reads an object of the cluster that was found. A server that gives no answer is asked again: a load
// balancer may know only now and then of one that does. Any answer counts, be it that there is no such object.
func Object(ctx context.Context, e *flow.Env, ref state.Ref) (*unstructured.Unstructured, error) {
	u, err := e.World.Object(ctx, ref)
	if !unanswered(err) {
		return u, err
	}
	failed := await(ctx, e, world.Condition{
		Name:    "the cluster to answer",
		Timeout: e.Local.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			if u, err = r.Object(ctx, ref); unanswered(err) {
				return err
			}
			return nil
		},
	})
	return u, cmp.Or(failed, err)
}

// unanswered reports whether a request did not reach a server that may be the cluster's.
func unanswered(err error) bool {
	var answer apierrors.APIStatus
	return err != nil && !world.Hopeless(err) && (isWrongServer(err) || !errors.As(err, &answer))
}
