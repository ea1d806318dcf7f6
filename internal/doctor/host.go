package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/existing"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// hostChecks are the checks of the machine, whether it is a node or not. One that is no node may
// become a worker: what only a control plane needs is a warning there.
func (m *machine) hostChecks(ctx context.Context) []preflight.Check {
	local := m.local
	if !m.isNode {
		local.Role = node.ControlPlane
	}
	networks := append(m.networks(ctx), m.subnets()...)
	list := m.clusterForwarding(preflight.Forwarding(networks))
	for _, c := range preflight.Machine(&local, m.env.Tool, networks) {
		switch c.Name {
		case "CRI":
			if m.noSocket != nil {
				c.Run = m.reportNoSocket
			}
		case "ContainerRuntimeVersion":
			if m.noSocket != nil {
				continue
			}
		case manifest.ComponentArgs: // the user gives no arguments here
			continue
		case "Swap":
			c = withFindings(c, m.keepSwap)
		case "SystemVerification":
			c = withFindings(c, m.keepCgroups)
		case "NumCPU", "Mem":
			c = m.unlessControlPlane(c)
		}
		list = append(list, c)
	}
	list = append(list,
		preflight.Check{Name: "KernelModules", Run: m.checkModules,
			Why: "container runtimes need these modules to store images, and kube-proxy may need them to balance Services"},
		preflight.Check{Name: "BridgeNetfilter", Run: m.checkBridge,
			Why: "otherwise the rules of Services do not apply to connections between Pods on the same bridge"},
		preflight.Check{Name: "CgroupDriver", Run: m.checkCgroupDriver,
			Why: "with two cgroup managers a node becomes unstable when resources run short"},
		preflight.Check{Name: "SandboxImage", Run: m.checkSandboxImage,
			Why: "the runtime pulls a different image from kubeadm, which fails where registries cannot be reached"},
		preflight.Check{Name: "DiskLatency", Run: m.checkDisk,
			Why: "etcd writes every change to its disk before it answers; a slow disk costs it the leader"},
	)
	list = append(list, m.networkChecks()...)
	if !m.isNode {
		list = append(list, m.vacantChecks()...)
	}
	return list
}

// clusterForwarding returns the forwarding checks of other IP families than those that are known. On a
// worker only the cluster's configuration shows whether they are needed.
func (m *machine) clusterForwarding(known []preflight.Check) []preflight.Check {
	if m.identity.Kubeconfig == "" || m.isControlPlane() {
		return nil
	}
	var list []preflight.Check
	for _, c := range preflight.Forwarding([]string{"0.0.0.0", "::"}) {
		isSame := func(other preflight.Check) bool { return other.Name == c.Name }
		if slices.ContainsFunc(known, isSame) {
			continue
		}
		list = append(list, m.needsAPI(c.Name, c.Why,
			func(ctx context.Context, r state.Reader, rep *preflight.Report) {
				n, err := m.stored(ctx, r)
				if m.skipOnError(rep, err) {
					return
				}
				if slices.ContainsFunc(preflight.Forwarding(preflight.ClusterCIDRs(n)), isSame) {
					c.Run(ctx, r, rep)
				}
			}))
	}
	return list
}

// reportNoSocket says why no container runtime is checked. Several of them are a choice of the user,
// which only init and join need to know.
func (m *machine) reportNoSocket(_ context.Context, _ state.Reader, rep *preflight.Report) {
	if !errors.Is(m.noSocket, existing.ErrSeveralRuntimes) {
		addError(rep, preflight.Finding{}, m.noSocket)
		return
	}
	next := "set --cri-socket to one of them when you run kubeadm init or kubeadm join"
	if m.isNode {
		next = strings.Join(problem.Hints(m.noSocket), "; ")
	}
	rep.Skip("%v; %s", m.noSocket, next)
}

// withFindings runs a check and keeps what keep returns of each finding.
func withFindings(c preflight.Check,
	keep func(preflight.Finding) (preflight.Finding, bool)) preflight.Check {
	run := c.Run
	c.Run = func(ctx context.Context, r state.Reader, rep *preflight.Report) {
		inner := preflight.NewReport(c.Name)
		run(ctx, r, inner)
		if reason := inner.Skipped(); reason != "" {
			rep.Skip("%s", reason)
		}
		for _, f := range inner.Result(nil).Findings {
			if f, ok := keep(f); ok {
				rep.Add(f)
			}
		}
	}
	return c
}

func asWarning(f preflight.Finding) (preflight.Finding, bool) {
	f.Severity = preflight.Warning
	return f, true
}

// unlessControlPlane makes the errors of a check warnings on a machine that need not become a control
// plane.
func (m *machine) unlessControlPlane(c preflight.Check) preflight.Check {
	if m.isNode {
		return c
	}
	return withFindings(c, func(f preflight.Finding) (preflight.Finding, bool) {
		f.Text += ", if it is to be a control plane node"
		return asWarning(f)
	})
}

// keepSwap drops the finding if the kubelet is configured to run with swap.
func (m *machine) keepSwap(f preflight.Finding) (preflight.Finding, bool) {
	return f, m.kubelet.FailSwapOn == nil || *m.kubelet.FailSwapOn
}

// keepCgroups drops findings about cgroups v1 if the kubelet is configured to run with them.
func (m *machine) keepCgroups(f preflight.Finding) (preflight.Finding, bool) {
	isAllowed := m.kubelet.FailCgroupV1 != nil && !*m.kubelet.FailCgroupV1
	return f, !isAllowed || !strings.Contains(f.Text, "cgroups v1") && !strings.Contains(f.Text, "cgroup v1")
}

// vacantChecks check that nothing is in the way of init and join.
func (m *machine) vacantChecks() []preflight.Check {
	n := &node.Node{Local: m.local}
	n.Cluster.Etcd.DataDir = m.dataDir()
	var list []preflight.Check
	for _, c := range preflight.Vacant(n) {
		if strings.HasPrefix(c.Name, "Port-") && c.Name != "Port-10250" {
			c = m.unlessControlPlane(c)
		}
		c.Why = "init and join do not replace files that may belong to another cluster"
		list = append(list, c)
	}
	return list
}

// moduleChanges load a module now and at each boot; see modules-load.d(5).
func moduleChanges(name string) []change.Change {
	return []change.Change{change.SetModule{Name: name, Loaded: true},
		change.WriteFile{Path: moduleFile(name), Mode: 0o644,
			Data: []byte("# written by kubeadm doctor --fix\n" + name + "\n")}}
}

func moduleFile(name string) string { return "/etc/modules-load.d/kubeadm-" + name + ".conf" }

func moduleCommand(name string) string {
	return fmt.Sprintf("modprobe %s && echo %s >%s", name, name, moduleFile(name))
}

// checkModules checks the overlay file system, unless a runtime works without it, and IPVS if
// kube-proxy uses it.
func (m *machine) checkModules(ctx context.Context, r state.Reader, rep *preflight.Report) {
	need := map[string]string{}
	if rt, err := m.runtime(ctx, r); m.noSocket == nil && (err != nil || !rt.Ready) {
		need["overlay"] = "the runtime may need it for container file systems"
	}
	if m.identity.Kubeconfig != "" {
		n, err := m.stored(ctx, r)
		if err == nil && n.Cluster.KubeProxy.Config != nil &&
			n.Cluster.KubeProxy.Config.Mode == "ipvs" {
			need["ip_vs"] = "kube-proxy is configured to use IPVS"
		}
	}
	for name, reason := range need {
		loaded, err := state.HasModule(ctx, r, name)
		if err == nil && !loaded && name == "overlay" {
			list, _ := r.ReadFile(ctx, "/proc/filesystems")
			loaded = bytes.Contains(list, []byte("\toverlay\n"))
		}
		if err != nil {
			rep.Skip("%v", err)
			continue
		}
		if !loaded {
			rep.Add(preflight.Finding{Severity: preflight.Warning,
				Text:     fmt.Sprintf("kernel module %s is not loaded", name),
				Evidence: reason, Remedy: "load it now and at every boot",
				Command: moduleCommand(name), Changes: moduleChanges(name)})
		}
	}
}

// cniConfig returns the configuration file that a runtime uses, the first by name, and its content.
func cniConfig(ctx context.Context, r state.Reader) (name string, data []byte, err error) {
	files, err := r.ReadDir(ctx, node.CNIConfigDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	for _, f := range files { // sorted by name
		if slices.Contains([]string{".conf", ".conflist", ".json"}, path.Ext(f.Path)) {
			data, err := r.ReadFile(ctx, f.Path)
			return f.Path, data, err
		}
	}
	return "", nil, nil
}

// checkBridge checks that packets between the ports of a bridge pass the rules of the packet filter,
// if the Pod network uses a bridge.
func (m *machine) checkBridge(ctx context.Context, r state.Reader, rep *preflight.Report) {
	file, data, err := cniConfig(ctx, r)
	if err != nil {
		rep.Skip("%v", err)
		return
	}
	type plugin struct {
		Type string `json:"type"`
	}
	var config struct {
		plugin
		Plugins []plugin `json:"plugins"`
	}
	_ = json.Unmarshal(data, &config) // the runtime reports a damaged file
	isBridge := func(p plugin) bool { return p.Type == "bridge" || p.Type == "flannel" }
	if !slices.ContainsFunc(append(config.Plugins, config.plugin), isBridge) {
		return
	}
	set := change.SetSysctl{Name: "net.bridge.bridge-nf-call-iptables", Value: "1"}
	f := preflight.Finding{Severity: preflight.Error, Remedy: "make bridged packets pass through the packet filter",
		Command: preflight.SysctlCommand(set), Changes: preflight.SysctlChanges(set)}
	value, err := r.ReadFile(ctx, set.Path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		const module = "br_netfilter"
		f.Text = "kernel module br_netfilter is not loaded, but the Pod network uses a bridge"
		f.Evidence = fmt.Sprintf("%s does not exist; %s has a plugin of type bridge or flannel",
			set.Path(), file)
		f.Command = moduleCommand(module) + " && " + f.Command
		f.Changes = append(moduleChanges(module), f.Changes...)
	case err != nil:
		rep.Skip("%v", err)
		return
	case strings.TrimSpace(string(value)) == "1":
		return
	default:
		f.Text = "the packet filter does not see bridged packets, but the Pod network uses a bridge"
		f.Evidence = fmt.Sprintf("%s is %q; %s has a plugin of type bridge or flannel", set.Path(),
			strings.TrimSpace(string(value)), file)
	}
	rep.Add(f)
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
func (m *machine) checkCgroupDriver(ctx context.Context, r state.Reader, rep *preflight.Report) {
	rt, err := m.runtime(ctx, r)
	if err != nil {
		rep.Skip("the container runtime does not answer: see check CRI")
		return
	}
	wanted := m.kubelet.CgroupDriver
	if wanted == "" {
		wanted = "cgroupfs" // the kubelet's default
	}
	if !m.isNode || rt.ReportsDriver && m.kubelet.CgroupDriver == "" {
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
		Evidence: fmt.Sprintf("%s; %s: cgroupDriver %s", evidence, m.local.Paths.KubeletConfig(),
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
func (m *machine) checkSandboxImage(ctx context.Context, r state.Reader, rep *preflight.Report) {
	rt, err := m.runtime(ctx, r)
	if err != nil {
		rep.Skip("the container runtime does not answer: see check CRI")
		return
	}
	var images release.Images
	if images.Target, err = release.ParseTarget(m.env.Tool.String()); err != nil {
		rep.Skip("%v", err)
		return
	}
	if m.identity.Kubeconfig != "" {
		if n, err := m.stored(ctx, r); err == nil {
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

// slowSync is the median time of a write from which etcd has trouble: it recommends that 99 of 100
// writes take less (https://etcd.io/docs/latest/faq/). The median does not depend on a moment's load.
const slowSync = 10 * time.Millisecond

// checkDisk measures the disk of etcd's data, where there is or may be a member of etcd.
func (m *machine) checkDisk(ctx context.Context, r state.Reader, rep *preflight.Report) {
	if m.isNode && !m.hasLocalEtcd(ctx) {
		return
	}
	dir := m.dataDir()
	for dir != "/" && !m.exists(ctx, dir) {
		dir = path.Dir(dir)
	}
	times, err := r.SyncTimes(ctx, dir)
	if err != nil || len(times) == 0 {
		rep.Skip("writes to %s cannot be measured: %v", dir, err)
		return
	}
	slices.Sort(times)
	median := times[len(times)/2]
	if median < slowSync {
		return
	}
	rep.Add(preflight.Finding{Severity: preflight.Warning,
		Text: fmt.Sprintf("the disk that holds etcd's data is slow: a write takes %s", median.Round(time.Millisecond/10)),
		Evidence: fmt.Sprintf("%d synced writes in %s: median %s, slowest %s; etcd recommends less than %s",
			len(times), dir, median.Round(time.Millisecond/10),
			times[len(times)-1].Round(time.Millisecond/10), slowSync),
		Remedy: "put etcd's data on a local SSD that other programs do not keep busy"})
}
