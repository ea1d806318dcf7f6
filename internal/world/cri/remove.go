package cri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// atOnce bounds how many Pods are taken down side by side: each one runs the network's plugins.
const atOnce = 4

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
	all = slices.DeleteFunc(all, func(s state.Sandbox) bool { return !want.Wants(s) })
	errs := make([]error, len(all))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, s := range all {
		g.Go(func() error {
			if want.Grace > 0 {
				c.stopContainers(ctx, s, want.Grace)
			}
			errs[i] = again(ctx, removePause, func() error { return c.removeSandbox(ctx, s) }, func(error) bool { return false })
			return nil // one that stays does not keep the others
		})
	}
	_ = g.Wait()
	return errors.Join(errs...)
}

func (c *client) removeSandbox(ctx context.Context, s state.Sandbox) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	if _, err := c.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.ID}); err != nil {
		return fmt.Errorf("stopping Pod %s/%s: %w", s.Namespace, s.Name, plain(err))
	}
	if _, err := c.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.ID}); err != nil {
		return fmt.Errorf("removing Pod %s/%s: %w", s.Namespace, s.Name, plain(err))
	}
	return nil
}
