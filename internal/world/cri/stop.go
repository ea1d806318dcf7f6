package cri

import (
	"context"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/state"
)

// stopContainers asks the running containers of a Pod to end, and kills those that have not within
// the time. An error is none here: whoever removes the Pod next kills what still runs.
func (c *client) stopContainers(ctx context.Context, s state.Sandbox, grace time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, grace+callLimit)
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
				ContainerId: container.Id, Timeout: int64(grace / time.Second),
			})
		})
	}
	stops.Wait()
}
