package cri

import (
	"context"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/state"
)

// stopContainers stops the running containers of a Pod and kills those that still run after the
// grace period. It ignores errors: the removal of the Pod kills what is left.
func (c *client) stopContainers(ctx context.Context, s state.Sandbox, gracePeriod time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, gracePeriod+callLimit)
	defer cancel()
	running := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	list, err := c.ListContainers(ctx, &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{PodSandboxId: s.ID, State: running},
	})
	if err != nil {
		return
	}
	var stops sync.WaitGroup
	for _, container := range list.Containers {
		stops.Go(func() {
			_, _ = c.StopContainer(ctx, &runtimeapi.StopContainerRequest{
				ContainerId: container.Id, Timeout: int64(gracePeriod / time.Second),
			})
		})
	}
	stops.Wait()
}
