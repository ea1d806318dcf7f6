package linux

import (
	"context"
	"fmt"
	"kubeadm/internal/state"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
	system "k8s.io/system-validators/validators"
)

// Host tells facts about this machine.
func (m Machine) Host(context.Context) (state.HostInfo, error) {
	name, err := os.Hostname()
	if err != nil {
		return state.HostInfo{}, fmt.Errorf("reading the host name: %w", err)
	}
	var s unix.Sysinfo_t
	if err := unix.Sysinfo(&s); err != nil {
		return state.HostInfo{}, fmt.Errorf("reading the size of the memory: %w", err)
	}
	return state.HostInfo{
		Hostname:  name,
		UserID:    os.Getuid(),
		CPUs:      runtime.NumCPU(),
		MemoryMiB: uint64(s.Totalram) * uint64(s.Unit) >> 20,
		Env:       os.Environ(),
	}, nil
}

// Verify asks whether kernel, operating system and cgroups can run a kubelet of that
// version. To find out it may load the kernel's configuration for a moment and make and
// remove an empty cgroup; there is no other way to learn these.
func (m Machine) Verify(_ context.Context, kubeletVersion string) (warnings, errs []error) {
	for _, v := range []system.Validator{
		&system.KernelValidator{Reporter: quiet{}},
		&system.OSValidator{Reporter: quiet{}},
		&system.CgroupsValidator{Reporter: quiet{}, KubeletVersion: strings.TrimPrefix(kubeletVersion, "v")},
	} {
		warned, failed := v.Validate(system.DefaultSysSpec)
		warnings, errs = append(warnings, warned...), append(errs, failed...)
	}
	return warnings, errs
}

// quiet drops the running commentary of the validators; what matters comes back as errors.
type quiet struct{}

// Report says nothing.
func (quiet) Report(string, string, system.ValidationResultType) error { return nil }
