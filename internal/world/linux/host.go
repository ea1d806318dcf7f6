//go:build linux

package linux

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
	system "k8s.io/system-validators/validators"

	"kubeadm/internal/state"
)

// Host returns facts about this machine.
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

// Verify checks whether kernel, operating system and cgroups can run a kubelet of that
// version. It may load the module of the kernel's configuration and create and remove an empty
// cgroup: there is no other way to check these.
func (m Machine) Verify(_ context.Context, kubeletVersion string) (warnings, errs []error) {
	for _, v := range []system.Validator{
		&system.KernelValidator{Reporter: silentReporter{}},
		&system.OSValidator{Reporter: silentReporter{}},
		&system.CgroupsValidator{Reporter: silentReporter{},
			KubeletVersion: strings.TrimPrefix(kubeletVersion, "v")},
	} {
		newWarnings, newErrs := v.Validate(system.DefaultSysSpec)
		warnings, errs = append(warnings, newWarnings...), append(errs, newErrs...)
	}
	return warnings, errs
}

// silentReporter drops the progress messages of the validators.
type silentReporter struct{}

// Report does nothing.
func (silentReporter) Report(string, string, system.ValidationResultType) error { return nil }
