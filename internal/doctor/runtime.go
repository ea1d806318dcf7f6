package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// reportNoSocket says why no container runtime is checked. Several of them are a choice of the user,
// which only init and join need to know.
func reportNoSocket(_ context.Context, _ state.Reader, rep *preflight.Report, m *machine) {
	if !errors.Is(m.NoSocket, existing.ErrSeveralRuntimes) {
		addError(rep, preflight.Finding{}, m.NoSocket)
		return
	}
	next := "set --cri-socket to one of them when you run kubeadm init or kubeadm join"
	if m.IsNode {
		next = strings.Join(problem.Hints(m.NoSocket), "; ")
	}
	rep.Skip("%v; %s", m.NoSocket, next)
}

// containerdConfig is the configuration file of containerd.
const containerdConfig = "/etc/containerd/config.toml"

// Settings of runc's cgroup driver and of the sandbox image in it.
var (
	systemdCgroup  = regexp.MustCompile(`(?m)^\s*SystemdCgroup\s*=\s*(true|false)`)
	sandboxSetting = regexp.MustCompile(`(?m)^\s*(?:sandbox|sandbox_image)\s*=\s*["']([^"']+)["']`)
)

// checkCgroupDriver compares the cgroup drivers of kubelet and runtime. A kubelet takes that of a
// runtime that reports it (KEP-4033).
func checkCgroupDriver(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	rt, err := m.runtime(ctx, r)
	if err != nil {
		rep.Skip("the container runtime is not responding: see check CRI")
		return
	}
	wanted := m.kubelet.CgroupDriver
	if wanted == "" {
		wanted = "cgroupfs" // the kubelet's default
	}
	if !m.IsNode || rt.ReportsDriver && m.kubelet.CgroupDriver == "" {
		return
	}
	found, evidence := rt.CgroupDriver, "reported by "+rt.Name
	if !rt.ReportsDriver {
		data, err := r.ReadFile(ctx, containerdConfig)
		if err != nil {
			rep.Skip("%s %s does not report its cgroup driver", rt.Name, rt.Version)
			return
		}
		found, evidence = "cgroupfs", containerdConfig+" does not set SystemdCgroup"
		if setting := systemdCgroup.FindSubmatch(data); setting != nil {
			evidence = containerdConfig + ": " + strings.TrimSpace(string(setting[0]))
			if string(setting[1]) == "true" {
				found = "systemd"
			}
		}
	}
	if found == wanted {
		return
	}
	f := preflight.Finding{Severity: preflight.Error,
		Text: fmt.Sprintf("the kubelet uses cgroup driver %s, but %s uses %s", wanted, rt.Name, found),
		Evidence: fmt.Sprintf("%s; %s: cgroupDriver %s", evidence, m.Paths.KubeletConfig(),
			wanted),
		Remedy: "set both to the same driver, and restart them"}
	if rt.ReportsDriver {
		f.Severity = preflight.Warning
		f.Text = fmt.Sprintf("the kubelet is configured for cgroup driver %s, but uses %s, which %s reports",
			wanted, found, rt.Name)
	}
	rep.Add(f)
}

// checkSandboxImage compares the image of Pod sandboxes with that of the cluster's version, or of this
// program's.
func checkSandboxImage(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	rt, err := m.runtime(ctx, r)
	if err != nil {
		rep.Skip("the container runtime is not responding: see check CRI")
		return
	}
	var images release.Images
	if images.Target, err = release.ParseTarget(m.env.Tool.String()); err != nil {
		rep.Skip("%v", err)
		return
	}
	if m.cluster.as.Kubeconfig != "" {
		if n, err := m.cluster.stored(ctx, r); err == nil {
			if images, err = manifest.Images(n); err != nil {
				rep.Skip("%v", err)
				return
			}
		}
	}
	evidence := "reported by " + rt.Name
	if rt.SandboxImage == "" { // as containerd 2
		data, _ := r.ReadFile(ctx, containerdConfig)
		setting := sandboxSetting.FindSubmatch(data)
		if setting == nil {
			rep.Skip("%s does not report its sandbox image, and %s does not set one", rt.Name, containerdConfig)
			return
		}
		rt.SandboxImage = string(setting[1])
		evidence = containerdConfig + ": " + strings.TrimSpace(string(setting[0]))
	}
	if text := preflight.SandboxImageWarning(rt, images.Pause()); text != "" {
		rep.Add(preflight.Finding{Severity: preflight.Warning, Text: text,
			Evidence: evidence,
			Remedy:   "set the sandbox image " + images.Pause() + " and restart " + rt.Name})
	}
}
