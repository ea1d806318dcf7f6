package cri

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/state"
)

// stopContainers stops the running containers of a Pod and kills those that still run after the
// grace period.
func (c *client) stopContainers(ctx context.Context, s state.Sandbox,
	gracePeriod time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, gracePeriod+callLimit)
	defer cancel()
	running := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	list, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{PodSandboxId: s.ID, State: running},
	})
	if err != nil {
		return fmt.Errorf("listing the containers of Pod %s/%s: %w", s.Namespace, s.Name,
			unwrapGRPCError(err))
	}
	var stops errgroup.Group
	for _, container := range list.Containers {
		stops.Go(func() error {
			_, err := c.StopContainer(ctx, &runtimeapi.StopContainerRequest{
				ContainerId: container.Id, Timeout: int64(gracePeriod / time.Second),
			})
			if err != nil {
				return fmt.Errorf("stopping a container of Pod %s/%s: %w", s.Namespace, s.Name,
					unwrapGRPCError(err))
			}
			return nil
		})
	}
	return stops.Wait()
}
