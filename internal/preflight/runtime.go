package preflight

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// containerdConfig is the configuration file of containerd.
const containerdConfig = "/etc/containerd/config.toml"

// startNow also lets a service start at each boot.
const startNow = "enable --now"

// disabledPlugins matches the list of disabled plugins in it.
var disabledPlugins = regexp.MustCompile(`(?m)^\s*disabled_plugins\s*=\s*\[[^\]]*\]`)

// explainRuntimeFailure adds to the finding why the runtime at a socket does not answer: its service
// does not run, or its configuration disables the CRI plugin, as that of Docker's packages does.
func explainRuntimeFailure(ctx context.Context, r state.Reader, l *node.Local, f *Finding) {
	unit := map[string]string{"crio.sock": "crio", "cri-dockerd.sock": "cri-docker"}[path.Base(l.CRISocket)]
	unit = cmp.Or(unit, "containerd")
	s, err := r.Service(ctx, unit)
	if err == nil && s.Exists && !s.Active {
		f.Evidence = "service " + unit + " is not active"
		f.Command = l.Platform.ServiceCommand(startNow, unit)
		f.Changes = []change.Change{change.SetService{Name: unit, Active: true}}
		if !s.Enabled {
			f.Changes = append(f.Changes, change.EnableService{Name: unit, Enabled: true})
		}
		return
	}
	data, err := r.ReadFile(ctx, containerdConfig)
	if err != nil || unit != "containerd" {
		return
	}
	if found := disabledPlugins.Find(data); strings.Contains(string(found), "cri") {
		f.Evidence = containerdConfig + ": " + strings.TrimSpace(string(found))
		f.Remedy = "remove the CRI plugin from disabled_plugins in " + containerdConfig
		f.Command = "systemctl restart " + unit
	}
}

// newRuntimeChecks checks that the container runtime is ready, and new enough to report its cgroup
// driver (KEP-4033).
func newRuntimeChecks(l *node.Local) []Check {
	socket := l.CRISocket
	runtime := Query[state.Runtime](
		func(ctx context.Context, r state.Reader) (state.Runtime, error) {
			return r.Runtime(ctx, socket)
		}).Cached()
	list := []Check{
		{Name: "CRI", Run: func(ctx context.Context, r state.Reader, rep *Report) {
			rt, err := runtime(ctx, r)
			if err != nil {
				remedy := "another one"
				if others, err := r.Runtimes(ctx); err == nil && len(others) > 0 {
					remedy = "one that is open here: " + strings.Join(others, ", ")
				}
				f := Finding{Severity: Error,
					Text: fmt.Sprintf("no usable container runtime: %v", err),
					Remedy: fmt.Sprintf("start it (for example %q), with its CRI plugin enabled",
						l.Platform.ServiceCommand(startNow, "containerd")) + ", or set --cri-socket to " + remedy}
				explainRuntimeFailure(ctx, r, l, &f)
				rep.Add(f)
				return
			}
			if !rt.Ready {
				rep.Fail("check the log of "+cmp.Or(rt.Name, "the runtime")+" and restart it",
					"container runtime %s %s at %s is not ready: %s", rt.Name, rt.Version, socket,
					cmp.Or(rt.Reason, "it does not give a reason"))
			}
		}, Why: "the kubelet runs every container through the container runtime, including those of the control plane"},
		{Name: "ContainerRuntimeVersion",
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				rt, err := runtime(ctx, r)
				switch {
				case err != nil:
					rep.Add(Finding{Severity: Error, NotMade: "see check CRI",
						Text:   "the container runtime's cgroup driver is unknown because the runtime is not responding",
						Remedy: "first fix what check CRI reports"})
				case rt.DriverError != "":
					rep.Fail("check the log of "+rt.Name+", fix its configuration and restart it",
						"%s %s failed to report its cgroup driver: %s", rt.Name, rt.Version,
						rt.DriverError)
				case !rt.ReportsDriver:
					rep.Warn("upgrade the container runtime",
						"%s %s cannot report its cgroup driver (RuntimeConfig), which kubelets from 1.38 on require", rt.Name, rt.Version)
				}
			}},
	}
	if l.Platform.IsWindows() {
		return list[:1] // there are no control groups, so no driver of theirs
	}
	return list
}
