package doctor

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

func checkClusterConfig(ctx context.Context, r state.Reader, rep *preflight.Report, c *cluster) {
	_, err := c.stored(ctx, r)
	if apierrors.IsForbidden(err) {
		c.skipOnError(rep, err)
	} else if err != nil {
		addError(rep, preflight.Finding{}, err)
	}
}
