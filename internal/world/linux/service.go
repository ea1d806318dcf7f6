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

// Asking an init system for a state takes milliseconds; a job of it may take as long as a
// unit's own start and stop limits allow, which are 90 s each by default.
const (
	askLimit = 10 * time.Second
	jobLimit = 4 * time.Minute
)

// initSystem starts and stops the services of a machine.
type initSystem interface {
	service(ctx context.Context, name string) (state.Service, error)
	restart(ctx context.Context, name string) error
	stop(ctx context.Context, name string) error
}

// running finds the init system that runs this machine, as sd_booted(3) does for systemd;
// that its programs are installed alone says nothing.
func running() (initSystem, error) {
	if info, err := os.Stat("/run/systemd/system"); err == nil && info.IsDir() {
		return systemd{}, nil
	}
	if _, err := exec.LookPath("openrc"); err != nil {
		return nil, state.ErrNoInitSystem
	}
	for _, name := range []string{"rc-service", "rc-update"} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, fmt.Errorf("openrc is installed without %s: %w", name, state.ErrNoInitSystem)
		}
	}
	return openRC{state: "/run/openrc"}, nil
}

// Service tells the state of a unit.
func (m Machine) Service(ctx context.Context, name string) (state.Service, error) {
	in, err := running()
	if err != nil {
		return state.Service{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	s, err := in.service(ctx, name)
	if err != nil {
		return state.Service{}, fmt.Errorf("asking for the state of service %q: %w", name, err)
	}
	return s, nil
}

// ServiceLog is the end of what a unit's program wrote, as the journal of systemd has it.
func (m Machine) ServiceLog(ctx context.Context, name string) (string, error) {
	in, err := running()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if _, ok := in.(systemd); !ok {
		return "", nil // where OpenRC lets a service write is up to each
	}
	text, err := systemd{}.log(ctx, name)
	if err != nil {
		return "", fmt.Errorf("reading what service %q wrote: %w", name, err)
	}
	return text, nil
}

func setService(ctx context.Context, c change.SetService) error {
	in, err := running()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, jobLimit, fmt.Errorf("it took longer than %s", jobLimit))
	defer cancel()
	if c.Active {
		return in.restart(ctx, c.Name)
	}
	return in.stop(ctx, c.Name)
}

// modTime is when a file was last written, without following a link; zero if there is none.
func modTime(path ...string) (time.Time, error) {
	info, err := os.Lstat(filepath.Join(path...))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
