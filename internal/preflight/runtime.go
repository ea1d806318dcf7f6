package preflight

import (
	"cmp"
	"context"
	"strings"

	"kubeadm/internal/state"
)

// newRuntimeChecks checks that the container runtime is ready, and new enough to report its cgroup
// driver (KEP-4033).
func newRuntimeChecks(socket string) []Check {
	runtime := query[state.Runtime](
		func(ctx context.Context, r state.Reader) (state.Runtime, error) {
			return r.Runtime(ctx, socket)
		}).cached()
	return []Check{
		{Name: "CRI", Run: func(ctx context.Context, r state.Reader, rep *Report) {
			rt, err := runtime(ctx, r)
			if err != nil {
				remedy := "another one"
				if others, err := r.Runtimes(ctx); err == nil && len(others) > 0 {
					remedy = "one that is open here: " + strings.Join(others, ", ")
				}
				rep.Fail(`start it (for example "systemctl enable --now containerd"), with its CRI plugin enabled`+
					", or set --cri-socket to "+remedy, "no container runtime can be used: %v", err)
				return
			}
			if !rt.Ready {
				rep.Fail("check the log of "+cmp.Or(rt.Name, "the runtime")+" and restart it",
					"container runtime %s %s at %s is not ready: %s", rt.Name, rt.Version, socket,
					cmp.Or(rt.Reason, "it gives no reason"))
			}
		}},
		{Name: "ContainerRuntimeVersion",
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				rt, err := runtime(ctx, r)
				switch {
				case err != nil:
					rep.Fail("fix what check CRI reports",
						"the cgroup driver of the container runtime is not known, as the runtime does not answer")
				case rt.DriverError != "":
					rep.Fail("check the log of "+rt.Name+", fix its configuration and restart it",
						"%s %s failed to report its cgroup driver: %s", rt.Name, rt.Version,
						rt.DriverError)
				case !rt.ReportsDriver:
					rep.Warn("upgrade the container runtime",
						"%s %s cannot report its cgroup driver (RuntimeConfig), without which kubelets from 1.38 on do not run", rt.Name, rt.Version)
				}
			}},
	}
}
