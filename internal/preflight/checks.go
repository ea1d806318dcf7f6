package preflight

import (
	"context"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Root returns the check that every command that changes a machine runs first: that it is root.
func Root() []Check {
	return []Check{newHostCheck("IsPrivilegedUser", func(h state.HostInfo, rep *Report) {
		if h.UserID != 0 {
			rep.Fail(h.Platform.RunAsRootHint(), "kubeadm must run as root, but runs as user ID %d",
				h.UserID)
		}
	})}
}

// Init returns the checks of a machine that becomes the first control plane of a cluster. They
// share cached queries: call it again for each Run.
func Init(n *node.Node, tool release.Tool) []Check {
	kubelet := KubeletVersion()
	return slices.Concat(
		newControlPlaneChecks(n, tool),
		newNodeChecks(&n.Local, tool, kubelet, parseVersionOrNil(n.Cluster.Version)),
		[]Check{newKubeletGateCheck(n, kubelet)},
		Forwarding(append(ClusterCIDRs(n), n.Address)),
		newExternalEtcdVersionChecks(n.Cluster.Etcd.External),
		newLocalEtcdChecks(n),
		newExternalEtcdFileChecks(n.Cluster.Etcd.External),
		newComponentChecks(n, nil, createFile),
	)
}

// newControlPlaneChecks returns the checks of a new control plane node that come first.
func newControlPlaneChecks(n *node.Node, tool release.Tool) []Check {
	list := append(newResourceChecks(), newKubernetesVersionCheck(n.Cluster.Version, tool),
		newFirewalldCheck(n.BindPort))
	list = append(list, newControlPlanePortChecks(n)...)
	for _, name := range []string{release.APIServer, release.ControllerManager, release.Scheduler,
		etcd} {
		list = append(list, newFileAvailableCheck(n.Paths.Manifest(name)))
	}
	return append(list, newProxyChecks(n.Address, ClusterCIDRs(n))...)
}

// Join returns the checks of a machine that becomes a node of a cluster, those before
// discovery. They share cached queries: call it again for each Run.
func Join(l *node.Local, tool release.Tool, kubelet Query[*version.Version]) []Check {
	// The kubelet creates kubelet.conf by itself from bootstrap-kubelet.conf, so a run of ours that
	// started the kubelet caused it.
	bootstrap := l.Paths.BootstrapKubeconfig()
	list := append([]Check{
		newFileAvailableCheck(l.Paths.KubeletKubeconfig(),
			append(kubeletTargets(l.Paths), change.FileTarget(bootstrap))...),
		newFileAvailableCheck(bootstrap),
	}, newNodeChecks(l, tool, kubelet, nil)...)
	if l.Role == node.Worker {
		list = append(list, newFileAvailableCheck(l.CACertPath))
	}
	host, _, err := net.SplitHostPort(l.Discovery.Endpoint)
	if err != nil {
		return list
	}
	list = append(list, newProxyChecks(host, nil)...)
	if l.Platform.IsWindows() {
		return list
	}
	return append(list, Forwarding([]string{host})...)
}

// AfterDiscovery returns the checks of any joining machine that need the discovered cluster's
// configuration. A kubelet that is newer than the control plane of its cluster is a warning: it may
// work, and may be intended while a cluster is being upgraded.
func AfterDiscovery(n *node.Node, kubelet Query[*version.Version]) []Check {
	controlPlane := parseVersionOrNil(n.Cluster.Version)
	return []Check{{Name: "KubeletVersion",
		Run: func(ctx context.Context, r state.Reader, rep *Report) {
			v, err := kubelet(ctx, r)
			if err == nil && controlPlane != nil && release.IsKubeletNewer(v, controlPlane) {
				rep.Warn("install a kubelet of the same or an older minor version",
					"kubelet v%s is newer than the cluster's control plane, v%s, which Kubernetes does not support", v, controlPlane)
			}
		}}, newKubeletGateCheck(n, kubelet)}
}

// JoinControlPlane returns the checks, besides those of Join, of a machine that joins as a
// control plane and downloads these files.
func JoinControlPlane(n *node.Node, tool release.Tool, downloaded []ArgumentFile) []Check {
	list := slices.Concat(newControlPlaneChecks(n, tool), newLocalEtcdChecks(n),
		newComponentChecks(n, downloaded, createFile+", or join with a certificate key, with which it is downloaded "+
			"(on a node that has the file: kubeadm token create --print-join-command --upload-certs)"))
	if n.CertificateKey != "" { // the files will be downloaded
		return list
	}
	return append(list, newExternalEtcdFileChecks(n.Cluster.Etcd.External)...)
}

// Upgrade returns the checks of a machine that is a node and is upgraded to the state of n. They
// share cached queries: call it again for each Run.
func Upgrade(n *node.Node) []Check {
	kubelet := Query[*version.Version](
		func(ctx context.Context, r state.Reader) (*version.Version, error) {
			v, err := readKubeletVersion(ctx, r)
			if err != nil {
				return nil, err
			}
			return v.WithMinor(v.Minor() + 1), nil // the kubelet is upgraded next
		}).Cached()
	list := append(newRuntimeChecks(&n.Local), newSystemVerificationCheck(kubelet))
	wanted := parseVersionOrNil(n.Cluster.Version) // that of the kubelet, once it is upgraded
	list = append(list, newKubeletFlagCheck(n.Paths.KubeletFlags(), wanted),
		newKubeletGateCheck(n, func(context.Context, state.Reader) (*version.Version, error) {
			return wanted, nil
		}))
	if n.Role != node.ControlPlane {
		return list
	}
	return append(list, newObstacleChecks(n)...)
}

// Reconfigure returns the checks of a node that follows a change of its cluster's configuration and
// downloads these files. They share cached queries: call it again for each Run.
func Reconfigure(n *node.Node, downloaded []ArgumentFile) []Check {
	kubelet := KubeletVersion()
	list := append(newRuntimeChecks(&n.Local), newKubeletGateCheck(n, kubelet), newKubeletArgsCheck(&n.Local, kubelet))
	if n.Role != node.ControlPlane {
		return list
	}
	return append(list, newComponentChecks(n, downloaded, createFile+"; one that has it can upload it for others "+
		"(kubeadm reconfigure apply --upload-certs)")...)
}

// Machine returns the checks that a machine must pass before it is a node and as long as it is one.
// If the machine is or may become a control plane, they include its resources. They share cached
// queries: call it again for each Run.
func Machine(l *node.Local, tool release.Tool, networks []string) []Check {
	list := newMachineChecks(l, tool, KubeletVersion(), nil)
	if l.Platform.IsWindows() {
		return list
	}
	list = append(list, Forwarding(networks)...)
	if l.Role == node.ControlPlane {
		list = append(list, newResourceChecks()...)
	}
	return append(list, newFirewalldCheck(l.BindPort))
}

// Proxies returns the checks that connections to a host of the cluster, and to its subnets, do not go
// through a proxy.
func Proxies(host string, cidrs []string) []Check { return newProxyChecks(host, cidrs) }

// Vacant returns the checks that a machine is clean, with nothing left from another cluster: no files
// that a command would have to replace, and no program at the ports that n needs.
func Vacant(n *node.Node) []Check {
	list := []Check{newFileAvailableCheck(n.Paths.KubeletKubeconfig())}
	if n.Platform.IsWindows() {
		return append(list, newKubeletPortCheck(&n.Local))
	}
	for _, name := range append(manifest.Components(), etcd) {
		list = append(list, newFileAvailableCheck(n.Paths.Manifest(name)))
	}
	list = append(list, newKubeletPortCheck(&n.Local))
	return slices.Concat(list, newControlPlanePortChecks(n), newLocalEtcdChecks(n))
}

// Names returns the names of all checks, and of pulling images, with default settings.
func Names() []string {
	local := node.Local{Paths: node.DefaultPaths(), BindPort: 6443, Role: node.Worker,
		Discovery: node.Discovery{Endpoint: "[::1]:6443"}}
	local.CACertPath = local.Paths.Cert("ca")
	one := &node.Node{Local: local, Cluster: node.Cluster{
		ServiceSubnet: "10.96.0.0/12", PodSubnet: "fd00::/48",
		Etcd: node.Etcd{DataDir: "/var/lib/etcd"},
	}}
	other := &node.Node{Local: local, Cluster: node.Cluster{Etcd: node.Etcd{
		External: &node.ExternalEtcd{Endpoints: []string{"https://etcd:2379"}, CAFile: "ca.crt"},
	}}}
	var names []string
	for _, c := range slices.Concat(Root(), Init(one, release.Tool{}), Init(other, release.Tool{}),
		Join(&local, release.Tool{}, KubeletVersion())) {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return append(names, componentFile, ImagePull)
}

// ClusterCIDRs are the subnets of Services and Pods. One that is not configured is empty.
func ClusterCIDRs(n *node.Node) []string {
	return slices.Concat(strings.Split(n.Cluster.ServiceSubnet, ","),
		strings.Split(n.Cluster.PodSubnet, ","))
}

// newNodeChecks returns the checks of a machine that is going to run a kubelet. If the control
// plane's version is nil, the kubelet's is compared with the tool's only.
func newNodeChecks(l *node.Local, tool release.Tool, kubelet Query[*version.Version],
	controlPlane *version.Version) []Check {
	return append(newMachineChecks(l, tool, kubelet, controlPlane), newKubeletPortCheck(l))
}

func newKubeletPortCheck(l *node.Local) Check {
	return port{number: kubeletServer, user: "the kubelet", causes: kubeletTargets(l.Paths)}.check()
}

// newMachineChecks returns the checks that a machine must pass before it runs a kubelet and as long
// as it does.
func newMachineChecks(l *node.Local, tool release.Tool, kubelet Query[*version.Version],
	controlPlane *version.Version) []Check {
	list, programs := newRuntimeChecks(l), []string{"xcopy"}
	remedy := "correct PATH: the program belongs to Windows"
	if !l.Platform.IsWindows() {
		list, programs = append(list, newSwapCheck()), []string{"losetup", "mount", "cp"}
		remedy = "install its package (find it with apt-file or dnf provides), or correct PATH"
	} else {
		list = append(list, newDirAccessCheck(l))
	}
	for _, program := range programs {
		list = append(list, Check{Name: "FileExisting-" + program,
			Run: func(ctx context.Context, r state.Reader, rep *Report) {
				if _, err := r.Program(ctx, program); err != nil {
					rep.Fail(remedy, "%v", programNotFoundError(ctx, r, program, err))
				}
			}, Why: "kubelet and volume plugins run this program"})
	}
	list = append(list, newSystemVerificationCheck(kubelet), newHostnameCheck(l.Name, l.Platform))
	return append(list, newKubeletChecks(l, tool, kubelet, controlPlane)...)
}
