package discovery

import (
	"cmp"
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// ReadObject reads an object of the discovered cluster. It retries until a server answers, as not
// all backends of a load balancer may be ready. "Not found" is an answer.
func ReadObject(ctx context.Context, e *engine.Env,
	ref state.Ref) (*unstructured.Unstructured, error) {
	u, err := e.World.Object(ctx, ref)
	if !isUnanswered(err) {
		return u, err
	}
	failed := awaitServer(ctx, e, world.Condition{
		Name:    "the cluster to answer",
		Timeout: e.Local.Timeouts.KubernetesAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			if u, err = r.Object(ctx, ref); isUnanswered(err) || world.IsPauseOfBusyServer(err) {
				return err
			}
			return nil
		},
	})
	return u, cmp.Or(failed, err)
}

// isUnanswered reports whether no API server of the cluster answered the request.
func isUnanswered(err error) bool {
	var answer apierrors.APIStatus
	return err != nil && !world.IsPermanent(err) && (isWrongServer(err) || !errors.As(err, &answer))
}
