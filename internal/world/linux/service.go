//go:build linux

package linux

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world/portable"
)

// jobTimeout is as long as a job may take: the start and stop limits of the unit, by default 90 s
// each, and a reserve.
const jobTimeout = 4 * time.Minute

// initSystem starts and stops services.
type initSystem interface {
	service(ctx context.Context, name string) (state.Service, error)
	// set restarts a service, or stops one that exists.
	set(ctx context.Context, c change.SetService) error
	enable(ctx context.Context, c change.EnableService) error
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
	ctx, cancel := context.WithTimeout(ctx, portable.QueryTimeout)
	defer cancel()
	s, err := in.service(ctx, name)
	if err != nil {
		return state.Service{}, fmt.Errorf("reading the state of service %q: %w", name, err)
	}
	return s, nil
}

// ServiceLog returns the last log lines of a unit since that time from the journal of systemd, at most
// that many bytes; empty with OpenRC.
func (m Machine) ServiceLog(ctx context.Context, name string, since time.Time,
	limit int) (string, error) {
	in, err := detectInitSystem()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, portable.QueryTimeout)
	defer cancel()
	if _, ok := in.(systemd); !ok {
		return "", nil // each OpenRC service has its own log file, or none
	}
	// Without systemd's own messages; see systemd.journal-fields(7).
	const bytesPerLine = 100 // few lines of a log are shorter
	args := []string{"--quiet", "--no-pager", "--output=cat",
		fmt.Sprintf("--lines=%d", limit/bytesPerLine), "_SYSTEMD_UNIT=" + unitName(name)}
	if !since.IsZero() {
		args = append(args, fmt.Sprintf("--since=@%d.%06d", since.Unix(), since.Nanosecond()/1000))
	}
	text, err := exec.CommandContext(ctx, "journalctl", args...).Output()
	if err != nil {
		return "", fmt.Errorf("reading the log of service %q: %w", name, err)
	}
	return string(text[max(0, len(text)-limit):]), nil
}

func setService(ctx context.Context, c change.SetService) error {
	in, err := detectInitSystem()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, jobTimeout,
		fmt.Errorf("it took longer than %s", jobTimeout))
	defer cancel()
	return in.set(ctx, c)
}

func enableService(ctx context.Context, c change.EnableService) error {
	in, err := detectInitSystem()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, portable.QueryTimeout,
		fmt.Errorf("it took longer than %s", portable.QueryTimeout))
	defer cancel()
	return in.enable(ctx, c)
}
