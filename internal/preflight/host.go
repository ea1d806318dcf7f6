package preflight

import (
	"context"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// The least that a control plane needs.
const (
	minCPUs      = 2
	minMemoryMiB = 1700
)

// lookupTimeout is the time for the DNS lookup of the node's name. The answer is not worth waiting
// longer for a name server that does not answer.
const lookupTimeout = 2 * time.Second

// newResourceChecks checks that the machine is large enough for a control plane.
func newResourceChecks() []Check {
	list := []Check{
		newHostCheck("NumCPU", func(h state.HostInfo, rep *Report) {
			if h.CPUs < minCPUs {
				// In the words by which minikube knows this failure (test/parity/phrases).
				available := fmt.Sprintf("the number of available CPUs %d", h.CPUs)
				rep.Fail("give the machine more CPUs", "%s is less than the required %d", available,
					minCPUs)
			}
		}),
		newHostCheck("Mem", func(h state.HostInfo, rep *Report) {
			if h.MemoryMiB < minMemoryMiB {
				rep.Fail("give the machine more memory",
					"this machine has %d MiB of memory, but a control plane node needs at least %d MiB",
					h.MemoryMiB, minMemoryMiB)
			}
		}),
	}
	for i := range list {
		list[i].Why = "control plane components become slow and miss their deadlines"
	}
	return list
}

func newHostCheck(name string, check func(state.HostInfo, *Report)) Check {
	return Check{Name: name, Run: func(ctx context.Context, r state.Reader, rep *Report) {
		h, err := r.Host(ctx)
		if err != nil {
			rep.Fail("check that /proc and /sys are mounted",
				"reading the resources of this machine: %v", err)
			return
		}
		check(h, rep)
	}}
}

func newSystemVerificationCheck(kubelet Query[*version.Version]) Check {
	return Check{Name: "SystemVerification",
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			v, err := kubelet(ctx, r)
			if err != nil {
				rep.Add(Finding{Severity: Error, NotMade: "see check KubeletVersion",
					Text:   "the kernel cannot be verified because the kubelet's version is unknown",
					Remedy: "first fix what check KubeletVersion reports"})
				return
			}
			warnings, errs := r.Verify(ctx, "v"+v.String())
			for _, w := range warnings {
				rep.Warn("", "%v", w)
			}
			for _, e := range errs {
				remedy := "boot a kernel and cgroup version that kubelet v" + v.String() +
					" supports"
				if strings.Contains(e.Error(), "cgroups v1") {
					remedy = "boot with cgroups v2 (kernel argument systemd.unified_cgroup_hierarchy=1)"
				}
				rep.Fail(remedy, "%v", e)
			}
		}, Why: "the kubelet and the containers need these kernel features and control groups"}
}

func newHostnameCheck(name string, platform node.Platform) Check {
	return Check{Name: "Hostname", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		for _, flaw := range validation.IsQualifiedName(name) {
			rep.Warn("choose another name with --node-name", "node name %q: %s", name, flaw)
		}
		if name == "localhost" || strings.HasPrefix(name, "localhost.") {
			rep.Warn("choose another name with --node-name, or name the machine with hostnamectl",
				"node name %q is not unique: a second machine with this name could not join", name)
		}
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		found, err := r.Lookup(ctx, name)
		remedy := "add it to DNS or to " + platform.HostsFile()
		if err != nil {
			rep.Warn(remedy, "node name %q cannot be resolved: %v", name, err)
		} else if len(found) == 0 {
			rep.Warn(remedy, "node name %q has no address", name)
		}
	}, Why: "the API server and other nodes may use this node's name to reach it"}
}
