package linux

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// openRC is spoken to by its programs; see rc-service(8) and rc-update(8).
type openRC struct {
	state string // folder in which OpenRC marks what runs
}

func (o openRC) service(ctx context.Context, name string) (state.Service, error) {
	exists, err := succeeds(ctx, "rc-service", "--exists", name)
	if err != nil || !exists {
		return state.Service{}, err
	}
	listed, err := output(ctx, "rc-update", "show", "default")
	if err != nil {
		return state.Service{}, err
	}
	active, err := succeeds(ctx, "rc-service", name, "status")
	if err != nil {
		return state.Service{}, err
	}
	s := state.Service{Exists: true, Enabled: slices.Contains(strings.Fields(listed), name), Active: active}
	if active {
		s.Since, err = modTime(o.state, "started", filepath.Base(name))
	}
	return s, err
}

func (o openRC) restart(ctx context.Context, name string) error {
	_, err := output(ctx, "rc-service", name, "restart")
	return seeRC(name, err)
}

func (o openRC) stop(ctx context.Context, name string) error {
	exists, err := succeeds(ctx, "rc-service", "--exists", name)
	if err != nil || !exists {
		return err
	}
	_, err = output(ctx, "rc-service", name, "stop")
	return seeRC(name, err)
}

func seeRC(name string, err error) error {
	if err == nil {
		return nil
	}
	return problem.New("", err, "see what the service says: rc-service "+name+" status")
}

// succeeds tells whether a program ends with exit code 0.
func succeeds(ctx context.Context, name string, args ...string) (bool, error) {
	_, err := output(ctx, name, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return false, nil
	}
	return err == nil, err
}
