package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/state"
)

// SetService starts, restarts or stops a unit of the init system.
type SetService struct {
	Name   string
	Active bool
	// Reads are configuration files of the service. If one of them is newer than the start of
	// the service, the service is restarted.
	Reads []string
}

// EnableService makes a unit of the init system start at boot, or not.
type EnableService struct {
	Name    string
	Enabled bool
}

// Target names the unit.
func (c EnableService) Target() string { return "service-at-boot:" + c.Name }

func (c EnableService) String() string {
	if c.Enabled {
		return fmt.Sprintf("enable service %q at boot", c.Name)
	}
	return fmt.Sprintf("disable service %q at boot", c.Name)
}

// Done reports whether the unit starts at boot, or does not.
func (c EnableService) Done(ctx context.Context, r state.Reader) (bool, error) {
	s, err := r.Service(ctx, c.Name)
	return err == nil && s.Enabled == c.Enabled, err
}

// Inverse restores the present state.
func (c EnableService) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	s, err := r.Service(ctx, c.Name)
	return EnableService{Name: c.Name, Enabled: s.Enabled}, err
}

// Target names the unit.
func (c SetService) Target() string { return "service:" + c.Name }

func (c SetService) String() string {
	if c.Active {
		return fmt.Sprintf("start service %q", c.Name)
	}
	return fmt.Sprintf("stop service %q", c.Name)
}

// Done reports whether the unit is in that state and was started after the last change of the
// files it reads.
func (c SetService) Done(ctx context.Context, r state.Reader) (bool, error) {
	s, err := r.Service(ctx, c.Name)
	if err != nil || s.Active != c.Active || !c.Active {
		return err == nil && s.Active == c.Active, err
	}
	for _, path := range c.Reads {
		info, err := r.Stat(ctx, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || s.Since.IsZero() || info.ModTime.After(s.Since) {
			return false, err
		}
	}
	return true, nil
}

// Inverse restores the current state of the unit.
func (c SetService) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	s, err := r.Service(ctx, c.Name)
	return SetService{Name: c.Name, Active: s.Active}, err
}
