//go:build windows

package windows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/portable"
)

// Host returns facts about this machine. An elevated process has the user ID of root.
func (m Machine) Host(context.Context) (state.HostInfo, error) {
	name, err := os.Hostname()
	if err != nil {
		return state.HostInfo{}, fmt.Errorf("reading the host name: %w", err)
	}
	memory, err := readMemory()
	if err != nil {
		return state.HostInfo{}, fmt.Errorf("reading the size of the memory: %w", err)
	}
	info := state.HostInfo{Hostname: name, CPUs: runtime.NumCPU(), MemoryMiB: memory >> 20,
		Env: os.Environ(), Platform: node.Windows(systemDrive())}
	if token := windows.GetCurrentProcessToken(); !token.IsElevated() {
		user, err := token.GetTokenUser()
		if err != nil {
			return info, fmt.Errorf("reading the user of this process: %w", err)
		}
		info.UserID = userNumber(user.User.Sid)
	}
	return info, nil
}

// readMemory calls GlobalMemoryStatusEx, for which golang.org/x/sys has no function.
func readMemory() (uint64, error) {
	var status struct { // MEMORYSTATUSEX
		length, load            uint32
		total, _, _, _, _, _, _ uint64
	}
	status.length = uint32(unsafe.Sizeof(status))
	call := windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")
	if ok, _, err := call.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0, err
	}
	return status.total, nil
}

// Verify accepts every machine: the kubelet itself checks the build of Windows.
func (m Machine) Verify(context.Context, string) (warnings, errs []error) { return nil, nil }

// Mounts returns nothing: volumes are links on Windows, and are removed as such.
func (m Machine) Mounts(context.Context, string) ([]string, error) { return nil, nil }

// SyncTimes measures how long small writes take to reach the disk.
func (m Machine) SyncTimes(ctx context.Context, dir string) (times []time.Duration, err error) {
	f, err := os.CreateTemp(localPath(dir), ".kubeadm-sync-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	return portable.SyncTimes(ctx, f, f.Sync)
}

// Chroot refuses: Windows has no root directory that a process could change.
func Chroot(dir string) error {
	return fmt.Errorf("--rootfs %s: Windows cannot change the root directory of a process", dir)
}
