package preflight

import (
	"cmp"
	"context"
	"kubeadm/internal/state"
	"strings"
)

func runtimeAt(socket string) fact[state.Runtime] {
	return func(ctx context.Context, r state.Reader) (state.Runtime, error) { return r.Runtime(ctx, socket) }
}

func containerRuntime(socket string, runtime fact[state.Runtime]) Check {
	return Check{Name: "CRI", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		rt, err := runtime(ctx, r)
		if err != nil {
			rep.Fail(startRuntime(ctx, r), "there is no container runtime to work with: %v", err)
			return
		}
		if !rt.Ready {
			rep.Fail("see the log of "+cmp.Or(rt.Name, "the runtime")+" and start it again",
				"container runtime %s %s at %s is not ready: %s", rt.Name, rt.Version, socket, cmp.Or(rt.Reason, "it gives no reason"))
		}
	}}
}

// startRuntime is how to get a runtime that answers; it names those that do.
func startRuntime(ctx context.Context, r state.Reader) string {
	start := `start it (for example "systemctl enable --now containerd"), with its CRI plugin on`
	if others, err := r.Runtimes(ctx); err == nil && len(others) > 0 {
		return start + ", or use --cri-socket with one that is open here: " + strings.Join(others, ", ")
	}
	return start + ", or name another with --cri-socket"
}

// containerRuntimeVersion asks whether the runtime is new enough to name its cgroup driver (KEP-4033).
func containerRuntimeVersion(runtime fact[state.Runtime]) Check {
	return Check{Name: "ContainerRuntimeVersion", Run: func(ctx context.Context, r state.Reader, rep *Report) {
		rt, err := runtime(ctx, r)
		if err != nil {
			rep.Fail("mend what CRI names", "the container runtime did not tell its cgroup driver, as it does not answer")
			return
		}
		switch {
		case rt.DriverFault != "":
			rep.Fail("see the log of "+rt.Name+", mend its configuration and start it again",
				"%s %s failed to tell its cgroup driver: %s", rt.Name, rt.Version, rt.DriverFault)
		case !rt.ReportsDriver:
			rep.Warn("upgrade the container runtime",
				"%s %s cannot tell its cgroup driver (RuntimeConfig), without which kubelets from 1.38 on do not run", rt.Name, rt.Version)
		}
	}}
}
