package preflight

import (
	"cmp"
	"context"
	"strings"

	"kubeadm/internal/state"
)

func newRuntimeCheck(socket string, runtime query[state.Runtime]) Check {
	return Check{Name: "CRI", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		rt, err := runtime(ctx, r)
		if err != nil {
			rep.Fail(startRuntimeHint(ctx, r), "no container runtime can be used: %v", err)
			return
		}
		if !rt.Ready {
			rep.Fail("check the log of "+cmp.Or(rt.Name, "the runtime")+" and restart it",
				"container runtime %s %s at %s is not ready: %s", rt.Name, rt.Version, socket,
				cmp.Or(rt.Reason, "it gives no reason"))
		}
	}}
}

// startRuntimeHint says how to start a container runtime, and names the sockets of those that run.
func startRuntimeHint(ctx context.Context, r state.Reader) string {
	start := `start it (for example "systemctl enable --now containerd"), with its CRI plugin enabled`
	if others, err := r.Runtimes(ctx); err == nil && len(others) > 0 {
		return start + ", or set --cri-socket to one that is open here: " +
			strings.Join(others, ", ")
	}
	return start + ", or set --cri-socket to another one"
}

// newRuntimeVersionCheck checks that the runtime is new enough to report its cgroup driver
// (KEP-4033).
func newRuntimeVersionCheck(runtime query[state.Runtime]) Check {
	return Check{Name: "ContainerRuntimeVersion",
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			rt, err := runtime(ctx, r)
			if err != nil {
				rep.Fail("fix what check CRI reports",
					"the cgroup driver of the container runtime is not known, as the runtime does not answer")
				return
			}
			switch {
			case rt.DriverError != "":
				rep.Fail("check the log of "+rt.Name+", fix its configuration and restart it",
					"%s %s failed to report its cgroup driver: %s", rt.Name, rt.Version,
					rt.DriverError)
			case !rt.ReportsDriver:
				rep.Warn("upgrade the container runtime",
					"%s %s cannot report its cgroup driver (RuntimeConfig), without which kubelets from 1.38 on do not run", rt.Name, rt.Version)
			}
		}}
}
