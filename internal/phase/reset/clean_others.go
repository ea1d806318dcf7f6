package reset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// intentOf is what the user wants of the reset.
func intentOf(e *engine.Env) *node.Reset { return engine.IntentOf[*node.Reset](e) }

// What the phases of a reset note for its closing text.
const (
	rulesLeft = "packet filter rules of programs that are not installed are left"
	nodeLeft  = "the Node object is left: its name is not known"
	fileLeft  = "an argument named a file, which is left: "
)

// clean removes what the user named with --clean. It runs after the containers are removed, so
// that nothing writes it again. Addresses of kube-ipvs0 tell which virtual servers are
// kube-proxy's, so rules come before interfaces. podNetworks are the network namespaces of the Pods
// that ran.
func clean(ctx context.Context, e *engine.Env, podNetworks []string) {
	for _, part := range []struct {
		target node.CleanTarget
		remove func(context.Context, *engine.Env)
	}{
		{node.CleanRules, removeRules},
		{node.CleanInterfaces, func(ctx context.Context, e *engine.Env) {
			removeInterfaces(ctx, e, podNetworks)
		}},
		{node.CleanCNI, removeCNI},
		{node.CleanCgroups, removeControlGroups},
		{node.CleanLogs, removeLogs},
		{node.CleanImages, removeImages},
	} {
		if intentOf(e).Cleans(part.target) {
			part.remove(ctx, e)
		}
	}
	if intentOf(e).CleansAll() {
		removeEmptyDirs(ctx, e)
	}
}

// removeEmptyDirs removes directories that the kubelet and the container runtime create to mount them
// into containers, as long as they are empty.
func removeEmptyDirs(ctx context.Context, e *engine.Env) {
	const plugins = "/usr/libexec/kubernetes"
	for _, dir := range []string{plugins + "/kubelet-plugins/volume/exec",
		plugins + "/kubelet-plugins/volume", plugins + "/kubelet-plugins", plugins,
		"/usr/lib/modules", namespaceDir} {
		if mounts, err := e.World.Mounts(ctx, dir); err != nil || len(mounts) > 0 {
			continue // as ip-netns(8) does with its directory
		}
		warnOnError(e, e.Do(ctx, change.Remove{Path: dir, OnlyEmpty: true}), "remove it manually")
	}
}

// removeRules removes the rules of kube-proxy, the kubelet and CNI plugins. The rules of a program
// that is not installed cannot be listed, so each missing one is a warning.
func removeRules(ctx context.Context, e *engine.Env) {
	e.Say("removing the packet filter rules of kube-proxy, the kubelet and CNI plugins")
	usedIPVS := removeVirtualServers(ctx, e)
	installed := map[string]bool{}
	for _, program := range state.PacketFilters() {
		if _, err := e.World.PacketRules(ctx, program); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		family, _, _ := strings.Cut(program, "-") // one of both implementations is enough
		installed[family] = true
		warnOnError(e, e.Do(ctx, change.RemovePacketRules{Program: program}),
			"remove the rules manually, or restart the machine")
	}
	for _, program := range []string{"iptables", "ip6tables", "nft", "ipset"} {
		if !installed[program] && (program != "ipset" || usedIPVS) {
			e.Note(rulesLeft)
			e.Warn("%s is not installed, so rules that it manages stay until this machine is restarted; install it and re-run the command",
				program)
		}
	}
}

// proxyInterface is the interface to which kube-proxy binds the addresses of Services in its mode
// ipvs.
const proxyInterface = "kube-ipvs0"

// removeVirtualServers removes the IPVS virtual servers of kube-proxy, and its interface. It reports
// whether the interface existed.
func removeVirtualServers(ctx context.Context, e *engine.Env) (usedIPVS bool) {
	links, err := e.World.Links(ctx)
	if err != nil {
		warnOfLinks(e, err)
		return false
	}
	for _, l := range links {
		if l.Name != proxyInterface {
			continue
		}
		usedIPVS = true
		if err := e.Do(ctx, change.RemoveVirtualServers{IPs: l.Addresses}); err != nil {
			// without the interface a re-run would not know whose virtual servers they are
			warnOnError(e, err, "remove the virtual servers manually, then the interface "+l.Name)
			return true
		}
		warnOnError(e, e.Do(ctx, change.RemoveInterface{Name: l.Name}),
			untrusted.CommandHint("remove it manually", "ip link delete", l.Name))
	}
	return usedIPVS
}

func warnOfLinks(e *engine.Env, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		e.WarnOnce("the program ip is not installed, so network interfaces are not removed: install iproute2 and re-run the command, or restart the machine")
		return
	}
	e.WarnOnce("%v; network interfaces are not removed", err)
}

// podNetworkLink matches names of interfaces that CNI plugins, flannel, Calico, NodeLocal DNSCache
// and kube-router create.
var podNetworkLink = regexp.MustCompile(`^(cni0|cbr0|nodelocaldns|kube-bridge|` +
	`flannel(-v6)?\.[0-9]+|flannel-wg(-v6)?|cali[0-9a-f]{11}|vxlan(-v6)?\.calico)$`)

// namespaceDir is where container runtimes mount the network namespaces of Pods.
const namespaceDir = "/run/netns"

// findPodNetworks returns the files of the network namespaces of the Pods that the container runtime
// lists. Other engines create some with names of the same form.
func findPodNetworks(ctx context.Context, e *engine.Env) []string {
	if !intentOf(e).Cleans(node.CleanInterfaces) {
		return nil
	}
	all, err := e.World.SandboxNetworks(ctx, e.Local.CRISocket)
	if err != nil {
		e.Warn("%v: network namespaces that the container runtime leaves behind are not removed", err)
	}
	return slices.Sorted(maps.Values(all))
}

// removeInterfaces removes the network namespaces of Pods that the container runtime has left behind,
// with their interfaces, and the interfaces that connect Pods.
func removeInterfaces(ctx context.Context, e *engine.Env, podNetworks []string) {
	e.Say("removing the network interfaces and network namespaces of the Pod network")
	podNetworks = slices.DeleteFunc(podNetworks, func(file string) bool {
		_, err := e.World.Lstat(ctx, file)
		return errors.Is(err, fs.ErrNotExist)
	})
	if links, err := e.World.Links(ctx); err != nil {
		warnOfLinks(e, err)
	} else {
		for _, l := range links {
			if podNetworkLink.MatchString(l.Name) || l.Namespace != "" &&
				slices.Contains(podNetworks, path.Join(namespaceDir, l.Namespace)) {
				warnOnError(e, e.Do(ctx, change.RemoveInterface{Name: l.Name}),
					untrusted.CommandHint("remove it manually", "ip link delete", l.Name))
			}
		}
	}
	for _, file := range podNetworks {
		err := e.Do(ctx, change.Unmount{Dir: file, Itself: true})
		if err == nil {
			err = e.Do(ctx, change.Remove{Path: file})
		}
		warnOnError(e, err, untrusted.CommandHint("remove it manually", "ip netns delete", path.Base(file)))
	}
}

const (
	cniStateDir = "/var/lib/cni"
)

// foreignCNIConfig matches the CNI configurations of packages and other container engines, which
// use the same directory.
var foreignCNIConfig = regexp.MustCompile(
	`podman|^\.?nerdctl|crio|-loopback\.conf|^\.kubernetes-cni-keep$|^README`)

// removeCNI removes the configuration of CNI plugins and what the plugins and the agents of
// flannel and Calico keep on disk.
func removeCNI(ctx context.Context, e *engine.Env) {
	e.Say("removing the CNI configuration in %s and the state in %s, /run/flannel, /run/calico and /var/lib/calico",
		node.CNIConfigDir, cniStateDir)
	kept, err := removeCNIConfig(ctx, e)
	if err != nil {
		e.Warn("%v: the state of CNI plugins in %s is kept, because it may belong to that network; remove it manually",
			err, cniStateDir)
	} else {
		removeCNIState(ctx, e, kept)
	}
	for _, dir := range []string{"/run/flannel", "/run/calico", "/var/lib/calico"} {
		if _, err := e.World.Stat(ctx, dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := e.Do(ctx, change.Unmount{Dir: dir})
		if err == nil {
			err = e.Do(ctx, change.Remove{Path: dir})
		}
		warnOnError(e, err, "remove it manually")
	}
}

// removeCNIConfig removes the CNI configuration except for that of others, and returns the names of
// their networks. The error names a file whose network is not known.
func removeCNIConfig(ctx context.Context, e *engine.Env) (networks []string, err error) {
	for _, f := range listDir(ctx, e, node.CNIConfigDir) {
		files := []state.FileInfo{f}
		if f.Mode.IsDir() { // nerdctl has one for each namespace of containerd
			files = append(files, listDir(ctx, e, f.Path)...)
		}
		if !slices.ContainsFunc(files, func(f state.FileInfo) bool {
			return foreignCNIConfig.MatchString(path.Base(f.Path))
		}) {
			warnOnError(e, e.Do(ctx, change.Remove{Path: f.Path}), "remove it manually")
			continue
		}
		e.Say("keeping %s, which does not belong to Kubernetes", f.Path)
		for _, f := range files {
			if f.Mode.IsDir() || !strings.Contains(path.Base(f.Path), ".conf") {
				continue
			}
			name, nameErr := readNetworkName(ctx, e, f.Path)
			if nameErr != nil {
				err = fmt.Errorf("reading the network of %s: %w", f.Path, nameErr)
			} else if name != "" {
				networks = append(networks, name)
			}
		}
	}
	return networks, err
}

func readNetworkName(ctx context.Context, e *engine.Env, file string) (string, error) {
	data, err := e.World.ReadFile(ctx, file)
	if err != nil {
		return "", err
	}
	var network struct{ Name, Type string }
	err = json.Unmarshal(data, &network)
	if err == nil && network.Name == "" && network.Type != "loopback" { // which keeps no state
		err = errors.New("it has no name")
	}
	return network.Name, err
}

// removeCNIState removes what CNI plugins keep of all networks but the kept ones.
func removeCNIState(ctx context.Context, e *engine.Env, kept []string) {
	for _, dir := range []string{"networks", "results"} {
		dir = path.Join(cniStateDir, dir)
		for _, f := range listDir(ctx, e, dir) {
			name := path.Base(f.Path)
			if !slices.ContainsFunc(kept, func(network string) bool {
				return name == network || strings.HasPrefix(name, network+"-")
			}) {
				warnOnError(e, e.Do(ctx, change.Remove{Path: f.Path}), "remove it manually")
			}
		}
		warnOnError(e, e.Do(ctx, change.Remove{Path: dir, OnlyEmpty: true}), "remove it manually")
	}
	for _, name := range []string{"cache", "flannel"} {
		if len(kept) == 0 {
			warnOnError(e, e.Do(ctx, change.Remove{Path: path.Join(cniStateDir, name)}),
				"remove it manually")
		}
	}
	warnOnError(e, e.Do(ctx, change.Remove{Path: cniStateDir, OnlyEmpty: true}),
		"remove it manually")
}

// controlGroupDir is where the kernel's control groups are mounted: one hierarchy there, or one below
// it for each controller (cgroup v1).
const controlGroupDir = "/sys/fs/cgroup"

// removeControlGroups removes the control groups of the kubelet, in which Pods ran. With the cgroup
// driver systemd they belong to a slice.
func removeControlGroups(ctx context.Context, e *engine.Env) {
	e.Say("removing the control groups of Pods")
	if slice, err := e.World.Service(ctx, "kubepods.slice"); err == nil && slice.Active {
		warnOnError(e, e.Do(ctx, change.SetService{Name: "kubepods.slice"}),
			"stop it manually: systemctl stop kubepods.slice")
	}
	dirs := []string{controlGroupDir}
	for _, f := range listDir(ctx, e, controlGroupDir) {
		if f.Mode.IsDir() {
			dirs = append(dirs, f.Path)
		}
	}
	for _, dir := range dirs {
		for _, name := range []string{"kubepods", "kubepods.slice"} {
			warnOnError(e, e.Do(ctx, change.RemoveControlGroup{Path: path.Join(dir, name)}),
				"remove it manually, or restart the machine")
		}
	}
}

// removeLogs removes the logs of Pods.
func removeLogs(ctx context.Context, e *engine.Env) {
	dirs := []string{"/var/log/containers", "/var/log/pods"}
	e.Say("removing the logs of Pods in %v", dirs)
	for _, dir := range dirs {
		for _, f := range listDir(ctx, e, dir) {
			warnOnError(e, e.Do(ctx, change.Remove{Path: f.Path}), "remove it manually")
		}
		warnOnError(e, e.Do(ctx, change.Remove{Path: dir, OnlyEmpty: true}), "remove it manually")
	}
}

// listDir lists a directory. One that cannot be read is reported and counts as empty.
func listDir(ctx context.Context, e *engine.Env, dir string) []state.FileInfo {
	all, err := e.World.ReadDir(ctx, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.Warn("%v: nothing is removed there", err)
	}
	return all
}
