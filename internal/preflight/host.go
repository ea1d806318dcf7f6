package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"kubeadm/internal/state"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
)

// What a control plane needs at least.
const (
	leastCPUs      = 2
	leastMemoryMiB = 1700
)

// lookupLimit bounds the look-up of the node's name: a name server that never answers
// would otherwise hold up the command for much longer than the answer is worth.
const lookupLimit = 2 * time.Second

func privilegedUser() Check {
	return aboutHost("IsPrivilegedUser", func(h state.HostInfo, rep *Report) {
		if h.UserID != 0 {
			rep.Fail(`run the command as root, for example with "sudo"`, "user %d may not change this machine", h.UserID)
		}
	})
}

func cpus() Check {
	return aboutHost("NumCPU", func(h state.HostInfo, rep *Report) {
		if h.CPUs < leastCPUs {
			// In the words by which minikube knows this failure (test/parity/phrases).
			available := fmt.Sprintf("the number of available CPUs %d", h.CPUs)
			rep.Fail("give the machine more CPUs", "%s is less than the required %d", available, leastCPUs)
		}
	})
}

func memory() Check {
	return aboutHost("Mem", func(h state.HostInfo, rep *Report) {
		if h.MemoryMiB < leastMemoryMiB {
			rep.Fail("give the machine more memory", "this machine has %d MiB of memory, a control plane needs at least %d MiB",
				h.MemoryMiB, leastMemoryMiB)
		}
	})
}

func aboutHost(name string, judge func(state.HostInfo, *Report)) Check {
	return Check{Name: name, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		h, err := r.Host(ctx)
		if err != nil {
			rep.Fail("see that /proc and /sys are mounted", "asking the operating system about this machine: %v", err)
			return
		}
		judge(h, rep)
	}}
}

// swap warns of swap space; proc(5) describes /proc/swaps: a heading and a line per area.
func swap() Check {
	return Check{Name: "Swap", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		text, err := r.ReadFile(ctx, "/proc/swaps")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return
		}
		if err != nil {
			rep.Warn("", "looking for swap space: %v", err)
			return
		}
		var areas []string
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
			area, _, _ := strings.Cut(line, " ")
			areas = append(areas, area)
		}
		if len(areas) > 0 {
			rep.Warn(`turn it off with "swapoff -a" and in /etc/fstab, or set failSwapOn: false for the kubelet`,
				"swap is on (%s), with which a kubelet does not start unless its configuration allows it", strings.Join(areas, ", "))
		}
	}}
}

func systemVerification(kubelet fact[*version.Version]) Check {
	return Check{Name: "SystemVerification", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		v, err := kubelet(ctx, r)
		if err != nil {
			rep.Fail("mend what KubeletVersion names", "what the kubelet asks of the kernel is not known, as its version is not")
			return
		}
		warnings, errs := r.Verify(ctx, "v"+v.String())
		for _, w := range warnings {
			rep.Warn("", "%v", w)
		}
		for _, e := range errs {
			rep.Fail(otherKernel(v, e), "%v", e)
		}
	}}
}

// otherKernel is what helps where a kubelet of that version cannot work.
func otherKernel(kubelet *version.Version, err error) string {
	if strings.Contains(err.Error(), "cgroups v1") {
		return "boot with cgroups v2 (systemd.unified_cgroup_hierarchy=1 among the kernel's arguments)"
	}
	return "boot a kernel, or with cgroups, that kubelet v" + kubelet.String() + " can work with"
}

func hostname(name string) Check {
	return Check{Name: "Hostname", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		for _, flaw := range validation.IsQualifiedName(name) {
			rep.Warn("choose another name with --node-name", "node name %q: %s", name, flaw)
		}
		if name == "localhost" || strings.HasPrefix(name, "localhost.") {
			rep.Warn("choose another name with --node-name, or name the machine with hostnamectl",
				"node name %q is that of any machine: no second node can join under it", name)
		}
		ctx, cancel := context.WithTimeout(ctx, lookupLimit)
		defer cancel()
		found, err := r.Lookup(ctx, name)
		remedy := "add it to DNS or to /etc/hosts"
		if err != nil {
			rep.Warn(remedy, "node name %q cannot be resolved: %v", name, err)
		} else if len(found) == 0 {
			rep.Warn(remedy, "node name %q has no address", name)
		}
	}}
}
