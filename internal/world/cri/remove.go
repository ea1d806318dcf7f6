package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// maxParallelRemovals limits how many Pods are stopped at the same time: each one runs the CNI
// plugins.
const maxParallelRemovals = 4

// removePause is the first pause between attempts to remove a Pod.
const removePause = 100 * time.Millisecond

func removeContainers(ctx context.Context, want change.RemoveContainers) error {
	c, err := connect(ctx, want.Socket, connectLimit)
	if err != nil {
		return err
	}
	defer c.close()
	all, err := c.sandboxes(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s state.Sandbox) bool { return !want.Matches(s) })
	errs := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(maxParallelRemovals)
	for i, s := range all {
		g.Go(func() error {
			if want.KeepPod {
				errs[i] = c.stopContainers(ctx, s, want.GracePeriod)
				return nil
			}
			if want.GracePeriod > 0 { // the removal kills what is left
				_ = c.stopContainers(ctx, s, want.GracePeriod)
			}
			errs[i] = retry(ctx, removePause, func() error { return c.removeStarted(ctx, s) },
				func(error) bool { return false })
			return nil // an error does not stop the removal of the others
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

// startLimit is how long a container may take to start while its Pod is being removed, and startPause
// the time between two attempts to remove it.
const (
	startLimit = 30 * time.Second
	startPause = 500 * time.Millisecond
)

// removeStarted is removeSandbox. It waits for a container that the kubelet is just starting, which
// containerd does not remove.
func (c *client) removeStarted(ctx context.Context, s state.Sandbox) error {
	deadline := time.Now().Add(startLimit)
	for {
		err := c.removeSandbox(ctx, s)
		if err == nil || !strings.Contains(err.Error(), "is in starting state") ||
			time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(startPause):
		}
	}
}

func (c *client) removeSandbox(ctx context.Context, s state.Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if _, err := c.StopPodSandbox(ctx,
		&runtimeapi.StopPodSandboxRequest{PodSandboxId: s.ID}); err != nil {
		return fmt.Errorf("stopping Pod %s/%s: %w", s.Namespace, s.Name, unwrapGRPCError(err))
	}
	if _, err := c.RemovePodSandbox(ctx,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.ID}); err != nil {
		return fmt.Errorf("removing Pod %s/%s: %w", s.Namespace, s.Name, unwrapGRPCError(err))
	}
	return nil
}
