// Package localkubelet is about the kubelet of this machine: it starts and stops its service, and reads,
// checks and replaces its client certificate. Where the init system has no service of the kubelet, as
// in a container, the user runs the kubelet by other means and is told what to do.
package localkubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/state"
)

// Service is the name of the kubelet's service.
const Service = "kubelet"

// ManifestPeriod is longer than the kubelet's fileCheckFrequency, 20 s, after which it reads all
// manifests again.
const ManifestPeriod = 30 * time.Second

var errNoService = fmt.Errorf("the init system has no service %q", Service)

// CheckService returns an error if the init system does not run the kubelet, which IsUnmanaged
// recognizes, or if it cannot be asked.
func CheckService(ctx context.Context, r state.Reader) error {
	s, err := r.Service(ctx, Service)
	if err == nil && !s.Exists {
		return errNoService
	}
	return err
}

// IsUnmanaged reports whether an error of CheckService says that the user runs the kubelet.
func IsUnmanaged(err error) bool {
	return errors.Is(err, errNoService) || errors.Is(err, state.ErrNoInitSystem)
}

// Start starts the kubelet, and restarts one that is older than one of the files that it reads.
func Start(ctx context.Context, e *engine.Env, reads ...string) error {
	return setService(ctx, e, "start or restart",
		change.SetService{Name: Service, Active: true, Reads: reads})
}

// Stop stops the kubelet, which is to be started again.
func Stop(ctx context.Context, e *engine.Env) error {
	return setService(ctx, e, "stop", change.SetService{Name: Service})
}

func setService(ctx context.Context, e *engine.Env, verb string, c change.SetService) error {
	err := CheckService(ctx, e.World)
	if IsUnmanaged(err) {
		e.Warn("%s the kubelet manually: %v", verb, err)
		return nil
	}
	if err != nil {
		return err
	}
	return e.Do(ctx, c)
}
