package change

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/state"
)

// SetSysctl sets a parameter of the running kernel; see sysctl(8).
type SetSysctl struct{ Name, Value string } // such as "net.ipv4.ip_forward" and "1"

// Path is the file by which the kernel shows the parameter.
func (c SetSysctl) Path() string {
	return path.Join("/proc/sys", strings.ReplaceAll(c.Name, ".", "/"))
}

// Target names the parameter.
func (c SetSysctl) Target() string { return "sysctl:" + c.Name }

func (c SetSysctl) String() string { return fmt.Sprintf("set sysctl %s to %s", c.Name, c.Value) }

// Done reports whether the parameter has that value.
func (c SetSysctl) Done(ctx context.Context, r state.Reader) (bool, error) {
	value, err := c.present(ctx, r)
	return err == nil && value == c.Value, err
}

// Inverse restores the present value.
func (c SetSysctl) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	value, err := c.present(ctx, r)
	return SetSysctl{Name: c.Name, Value: value}, err
}

func (c SetSysctl) present(ctx context.Context, r state.Reader) (string, error) {
	data, err := r.ReadFile(ctx, c.Path())
	return strings.TrimSpace(string(data)), err
}

// SetModule loads or unloads a module of the kernel.
type SetModule struct {
	Name   string // such as "br_netfilter"
	Loaded bool
}

// Target names the module.
func (c SetModule) Target() string { return "module:" + c.Name }

func (c SetModule) String() string {
	if c.Loaded {
		return fmt.Sprintf("load kernel module %q", c.Name)
	}
	return fmt.Sprintf("unload kernel module %q", c.Name)
}

// Done reports whether the module is loaded, or not loaded.
func (c SetModule) Done(ctx context.Context, r state.Reader) (bool, error) {
	loaded, err := state.HasModule(ctx, r, c.Name)
	return err == nil && loaded == c.Loaded, err
}

// Inverse restores the present state.
func (c SetModule) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	loaded, err := state.HasModule(ctx, r, c.Name)
	return SetModule{Name: c.Name, Loaded: loaded}, err
}

// SetSwap turns swapping to a device or file on or off, until the machine is booted.
type SetSwap struct {
	Area string // as /proc/swaps names it
	On   bool
}

// Target names the device or file.
func (c SetSwap) Target() string { return "swap:" + c.Area }

func (c SetSwap) String() string {
	if c.On {
		return fmt.Sprintf("turn on swap %q", c.Area)
	}
	return fmt.Sprintf("turn off swap %q", c.Area)
}

// Done reports whether the kernel swaps to the device or file, or does not.
func (c SetSwap) Done(ctx context.Context, r state.Reader) (bool, error) {
	areas, err := state.SwapAreas(ctx, r)
	return err == nil && slices.Contains(areas, c.Area) == c.On, err
}

// Inverse restores the present state.
func (c SetSwap) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	areas, err := state.SwapAreas(ctx, r)
	return SetSwap{Area: c.Area, On: slices.Contains(areas, c.Area)}, err
}
