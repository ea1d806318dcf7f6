//go:build linux

package linux

import (
	"context"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"kubeadm/internal/change"
	"kubeadm/internal/world/portable"
)

// setSysctl writes to the file of the parameter, which must exist: the kernel creates it.
func setSysctl(c change.SetSysctl) error {
	f, err := os.OpenFile(c.Path(), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(c.Value)
		if closed := f.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return fmt.Errorf("setting sysctl %s: %w", c.Name, err)
	}
	return nil
}

// setModule loads a module with those that it needs, or unloads it; see modprobe(8).
func setModule(ctx context.Context, c change.SetModule) error {
	ctx, cancel := context.WithTimeoutCause(ctx, portable.QueryTimeout,
		fmt.Errorf("it took longer than %s", portable.QueryTimeout))
	defer cancel()
	args := []string{"--", c.Name}
	if !c.Loaded {
		args = append([]string{"--remove"}, args...)
	}
	_, err := portable.Run(ctx, "modprobe", args...)
	return err
}

// setSwap calls swapon(2) with the default priority, or swapoff(2).
func setSwap(c change.SetSwap) error {
	call, name := uintptr(unix.SYS_SWAPOFF), "swapoff"
	if c.On {
		call, name = unix.SYS_SWAPON, "swapon"
	}
	area, err := unix.BytePtrFromString(c.Area)
	if err != nil {
		return fmt.Errorf("%s %q: %w", name, c.Area, err)
	}
	if _, _, failed := unix.Syscall(call, uintptr(unsafe.Pointer(area)), 0, 0); failed != 0 {
		return &os.PathError{Op: name, Path: c.Area, Err: failed}
	}
	return nil
}
