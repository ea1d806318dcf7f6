// Package kubeletservice starts and stops the kubelet by the init system of this machine. Where that
// does not have the kubelet's service, as in a container, the user runs the kubelet by other means
// and is told what to do.
package kubeletservice

import (
	"context"
	"errors"
	"fmt"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/state"
)

// Name is the name of the service.
const Name = "kubelet"

var errNoService = fmt.Errorf("the init system has no service %q", Name)

// Check returns an error if the init system does not run the kubelet, which IsUnmanaged recognizes,
// or if it cannot be asked.
func Check(ctx context.Context, r state.Reader) error {
	s, err := r.Service(ctx, Name)
	if err == nil && !s.Exists {
		return errNoService
	}
	return err
}

// IsUnmanaged reports whether an error of Check says that the user runs the kubelet.
func IsUnmanaged(err error) bool {
	return errors.Is(err, errNoService) || errors.Is(err, state.ErrNoInitSystem)
}

// Start starts the kubelet, and restarts one that is older than one of the files that it reads.
func Start(ctx context.Context, e *engine.Env, reads ...string) error {
	return set(ctx, e, "start or restart", change.SetService{Name: Name, Active: true, Reads: reads})
}

// Stop stops the kubelet, which is to be started again.
func Stop(ctx context.Context, e *engine.Env) error {
	return set(ctx, e, "stop", change.SetService{Name: Name})
}

func set(ctx context.Context, e *engine.Env, verb string, c change.SetService) error {
	err := Check(ctx, e.World)
	if IsUnmanaged(err) {
		e.Warn("%s the kubelet manually: %v", verb, err)
		return nil
	}
	if err != nil {
		return err
	}
	return e.Do(ctx, c)
}
