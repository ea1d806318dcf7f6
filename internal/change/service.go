package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"kubeadm/internal/state"
)

// SetService makes a unit run, or not run.
type SetService struct {
	Name   string
	Active bool
	// Reads are files that a running service must have been started after: when one of
	// them is newer than the start, the service is started again.
	Reads []string
}

// Target is the unit.
func (c SetService) Target() string { return "service:" + c.Name }

func (c SetService) String() string {
	if c.Active {
		return fmt.Sprintf("start service %q", c.Name)
	}
	return fmt.Sprintf("stop service %q", c.Name)
}

// Done tells whether the unit is in that state and has seen the files it reads.
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

// Inverse puts the unit back into its present state.
func (c SetService) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	s, err := r.Service(ctx, c.Name)
	return SetService{Name: c.Name, Active: s.Active}, err
}
