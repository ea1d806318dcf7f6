//go:build linux

package linux

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world/portable"
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
	listed, err := portable.Run(ctx, "rc-update", "show", "default")
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
		// The time of the link itself. Without it the time is not known.
		info, err := os.Lstat(filepath.Join(o.state, "started", filepath.Base(name)))
		if err == nil {
			s.Since = info.ModTime()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	return s, nil
}

func (o openRC) set(ctx context.Context, c change.SetService) error {
	action := "restart"
	if !c.Active {
		exists, err := exitsWithZero(ctx, "rc-service", "--exists", c.Name)
		if err != nil || !exists {
			return err
		}
		action = "stop"
	}
	if _, err := portable.Run(ctx, "rc-service", c.Name, action); err != nil {
		return problem.New(err, "check the state of the service: rc-service "+c.Name+" status")
	}
	return nil
}

func (o openRC) enable(ctx context.Context, c change.EnableService) error {
	action := "add"
	if !c.Enabled {
		action = "delete"
	}
	_, err := portable.Run(ctx, "rc-update", action, c.Name, "default")
	return err
}

// exitsWithZero reports whether a program exits with code 0.
func exitsWithZero(ctx context.Context, name string, args ...string) (bool, error) {
	_, err := portable.Run(ctx, name, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return false, nil
	}
	return err == nil, err
}
