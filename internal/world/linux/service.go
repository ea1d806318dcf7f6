package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Reading a state takes milliseconds. A job may take as long as the start and stop limits of the
// unit, by default 90 s each.
const (
	queryTimeout = 10 * time.Second
	jobTimeout   = 4 * time.Minute
)

// initSystem starts and stops services.
type initSystem interface {
	service(ctx context.Context, name string) (state.Service, error)
	restart(ctx context.Context, name string) error
	stop(ctx context.Context, name string) error
}

// detectInitSystem returns the running init system, for systemd as sd_booted(3) does. That the
// programs of systemd are installed does not mean that it runs.
func detectInitSystem() (initSystem, error) {
	if info, err := os.Stat("/run/systemd/system"); err == nil && info.IsDir() {
		return systemd{}, nil
	}
	if _, err := exec.LookPath("openrc"); err != nil {
		return nil, state.ErrNoInitSystem
	}
	for _, name := range []string{"rc-service", "rc-update"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("openrc is installed without %s: %w", name,
				state.ErrNoInitSystem)
		}
	}
	return openRC{state: "/run/openrc"}, nil
}

// Service returns the state of a unit.
func (m Machine) Service(ctx context.Context, name string) (state.Service, error) {
	in, err := detectInitSystem()
	if err != nil {
		return state.Service{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	s, err := in.service(ctx, name)
	if err != nil {
		return state.Service{}, fmt.Errorf("reading the state of service %q: %w", name, err)
	}
	return s, nil
}

// ServiceLog returns the last log lines of a unit from the journal of systemd; empty with OpenRC.
func (m Machine) ServiceLog(ctx context.Context, name string) (string, error) {
	in, err := detectInitSystem()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if _, ok := in.(systemd); !ok {
		return "", nil // each OpenRC service has its own log file, or none
	}
	text, err := systemd{}.log(ctx, name)
	if err != nil {
		return "", fmt.Errorf("reading the log of service %q: %w", name, err)
	}
	return text, nil
}

func setService(ctx context.Context, c change.SetService) error {
	in, err := detectInitSystem()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, jobTimeout,
		fmt.Errorf("it took longer than %s", jobTimeout))
	defer cancel()
	if c.Active {
		return in.restart(ctx, c.Name)
	}
	return in.stop(ctx, c.Name)
}

// readModTime returns the modification time of a file without following a symbolic link; zero if
// it does not exist.
func readModTime(path ...string) (time.Time, error) {
	info, err := os.Lstat(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
