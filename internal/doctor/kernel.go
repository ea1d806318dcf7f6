package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/change"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// unlessSwapAllowed drops the findings of a check if the kubelet is configured to run with swap.
func unlessSwapAllowed(c preflight.Check, kubelet *kubeletconfig.KubeletConfiguration) preflight.Check {
	return withFindings(c, func(f preflight.Finding) (preflight.Finding, bool) {
		return f, kubelet.FailSwapOn == nil || *kubelet.FailSwapOn
	})
}

// unlessCgroupV1Allowed drops findings about cgroups v1 if the kubelet is configured to run with them.
func unlessCgroupV1Allowed(c preflight.Check, kubelet *kubeletconfig.KubeletConfiguration) preflight.Check {
	isAllowed := kubelet.FailCgroupV1 != nil && !*kubelet.FailCgroupV1
	return withFindings(c, func(f preflight.Finding) (preflight.Finding, bool) {
		return f, !isAllowed || !strings.Contains(f.Text, "cgroups v1") && !strings.Contains(f.Text, "cgroup v1")
	})
}

// forwardingOfCluster returns the forwarding checks of other IP families than those that are known. On
// a worker only the cluster's configuration shows whether they are needed.
func forwardingOfCluster(m *machine, known []preflight.Check) []preflight.Check {
	if m.cluster.as.Kubeconfig == "" || m.isControlPlane() {
		return nil
	}
	var list []preflight.Check
	for _, c := range preflight.Forwarding([]string{"0.0.0.0", "::"}) {
		isSame := func(other preflight.Check) bool { return other.Name == c.Name }
		if slices.ContainsFunc(known, isSame) {
			continue
		}
		ifNeeded := func(ctx context.Context, r state.Reader, rep *preflight.Report) {
			n, err := m.cluster.stored(ctx, r)
			if m.cluster.skipOnError(rep, err) {
				return
			}
			if slices.ContainsFunc(preflight.Forwarding(preflight.ClusterCIDRs(n)), isSame) {
				c.Run(ctx, r, rep)
			}
		}
		list = append(list, preflight.Check{Name: c.Name, Why: c.Why, Run: ifNeeded})
	}
	return needAPI(m.cluster, list...)
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
func checkModules(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	need := map[string]string{}
	if rt, err := m.runtime(ctx, r); m.NoSocket == nil && (err != nil || !rt.Ready) {
		need["overlay"] = "the runtime may need it for container file systems"
	}
	if m.cluster.as.Kubeconfig != "" {
		n, err := m.cluster.stored(ctx, r)
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

// checkBridge checks that packets between the ports of a bridge pass the rules of the packet filter,
// if the Pod network uses a bridge.
func checkBridge(ctx context.Context, r state.Reader, rep *preflight.Report) {
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
