package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// TryCreate asks the API server, by a server-side dry run, whether it would create the object. It
// retries as Object does.
func (k *Cluster) TryCreate(ctx context.Context, object state.Object, as state.Identity) error {
	u, err := change.ToUnstructured(object)
	if err != nil {
		return err
	}
	ref := state.RefOf(object, as)
	op := "checking whether " + ref.String() + " can be created"
	create := func(ctx context.Context, c *client) error {
		r, err := c.resource(ref.GVK, ref.Namespace)
		if err == nil {
			_, err = r.Create(ctx, u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		}
		return err
	}
	return k.retry(ctx, request{as: as, op: op, isRetryable: isServerBusy, isRead: true,
		do: create})
}
