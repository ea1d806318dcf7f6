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

// openRC controls services by its programs; see rc-service(8) and rc-update(8).
type openRC struct {
	state string // directory in which OpenRC records the running services
}

func (o openRC) service(ctx context.Context, name string) (state.Service, error) {
	exists, err := exitsWithZero(ctx, "rc-service", "--exists", name)
	if err != nil || !exists {
		return state.Service{}, err
	}
	listed, err := runProgram(ctx, "rc-update", "show", "default")
	if err != nil {
		return state.Service{}, err
	}
	active, err := exitsWithZero(ctx, "rc-service", name, "status")
	if err != nil {
		return state.Service{}, err
	}
	s := state.Service{Exists: true, Enabled: slices.Contains(strings.Fields(listed), name),
		Active: active}
	if active {
		s.Since, err = readModTime(o.state, "started", filepath.Base(name))
	}
	return s, err
}

func (o openRC) restart(ctx context.Context, name string) error {
	_, err := runProgram(ctx, "rc-service", name, "restart")
	return withOpenRCHint(name, err)
}

func (o openRC) stop(ctx context.Context, name string) error {
	exists, err := exitsWithZero(ctx, "rc-service", "--exists", name)
	if err != nil || !exists {
		return err
	}
	_, err = runProgram(ctx, "rc-service", name, "stop")
	return withOpenRCHint(name, err)
}

func withOpenRCHint(name string, err error) error {
	if err == nil {
		return nil
	}
	return problem.New("", err, "check the state of the service: rc-service "+name+" status")
}

// exitsWithZero reports whether a program exits with code 0.
func exitsWithZero(ctx context.Context, name string, args ...string) (bool, error) {
	_, err := runProgram(ctx, name, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return false, nil
	}
	return err == nil, err
}
