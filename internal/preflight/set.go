package preflight

import (
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// Root asks what every command that changes a machine needs first: to be root.
func Root() []Check { return []Check{privilegedUser()} }

// Init asks what a machine must offer to become the first control plane of a cluster.
// The checks of one call share facts about the machine: make a new set for each Run.
func Init(n *node.Node, tool release.Tool) []Check {
	return slices.Concat(
		[]Check{cpus(), memory(), kubernetesVersion(n.Cluster.Version, tool), firewalld(n.BindPort)},
		controlPlanePorts(n),
		controlPlaneManifests(n.Paths),
		[]Check{proxy(n.Address)},
		proxiesOf(cidrs(n)),
		common(&n.Local, tool, versionOrNil(n.Cluster.Version)),
		forwarding(append(cidrs(n), n.Address)),
		externalEtcdVersion(n.Cluster.Etcd.External),
		localEtcd(n),
		externalEtcdFiles(n.Cluster.Etcd.External),
		componentFiles(n),
		obstacles(n),
		accounts(n),
	)
}

// Join asks what a machine must offer to become a node of a cluster, before that cluster is
// asked anything. The checks of one call share facts about the machine: make a new set for each Run.
func Join(l *node.Local, tool release.Tool) []Check {
	list := slices.Concat(kubeletCredentials(l.Paths), common(l, tool, nil))
	if l.Role == node.Worker {
		list = append(list, fileAvailable(l.CACertPath))
	}
	host, _, err := net.SplitHostPort(l.Join.Endpoint)
	if err != nil {
		return list
	}
	return slices.Concat(list, []Check{proxy(host)}, forwarding([]string{host}))
}

// Joined asks whether this machine suits the cluster that was found, whatever it becomes there.
func Joined(n *node.Node) []Check { return []Check{kubeletAhead(versionOrNil(n.Cluster.Version))} }

// JoinControlPlane asks what a machine must offer, besides what Join asks, to become one more control
// plane of the cluster that was found.
func JoinControlPlane(n *node.Node, tool release.Tool) []Check {
	list := slices.Concat(
		[]Check{cpus(), memory(), kubernetesVersion(n.Cluster.Version, tool), firewalld(n.BindPort)},
		controlPlanePorts(n),
		controlPlaneManifests(n.Paths),
		[]Check{proxy(n.Address)},
		proxiesOf(cidrs(n)),
		localEtcd(n),
		componentFiles(n),
		obstacles(n),
		accounts(n),
	)
	if n.CertificateKey != "" { // the files are yet to come
		return list
	}
	return append(list, externalEtcdFiles(n.Cluster.Etcd.External)...)
}

// Names are those of all checks, and of pulling images, as they are called with default settings.
func Names() []string {
	local := node.Local{Paths: node.DefaultPaths(), BindPort: 6443, Role: node.Worker, Join: node.Join{Endpoint: "[::1]:6443"}}
	local.CACertPath = local.Paths.Cert("ca")
	one := &node.Node{Local: local, Cluster: node.Cluster{
		ServiceSubnet: "10.96.0.0/12", PodSubnet: "fd00::/48", Etcd: node.Etcd{DataDir: "/var/lib/etcd"},
	}}
	other := &node.Node{Local: local, Cluster: node.Cluster{Etcd: node.Etcd{
		External: &node.ExternalEtcd{Endpoints: []string{"https://etcd:2379"}, CAFile: "ca.crt"},
	}}}
	var names []string
	for _, c := range slices.Concat(Root(), Init(one, release.Tool{}), Init(other, release.Tool{}), Join(&local, release.Tool{})) {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return append(names, componentFile, ImagePull)
}

func cidrs(n *node.Node) []string {
	return slices.Concat(strings.Split(n.Cluster.ServiceSubnet, ","), strings.Split(n.Cluster.PodSubnet, ","))
}

// common is what a kubelet needs, whatever the machine becomes. Without a control plane's
// version the kubelet's is compared with the tool's only.
func common(l *node.Local, tool release.Tool, controlPlane *version.Version) []Check {
	runtime, kubelet := runtimeAt(l.CRISocket).once(), fact[*version.Version](kubeletVersion).once()
	return []Check{
		containerRuntime(l.CRISocket, runtime),
		containerRuntimeVersion(runtime),
		swap(),
		fileExisting("losetup"),
		fileExisting("mount"),
		fileExisting("cp"),
		systemVerification(kubelet),
		hostname(l.Name),
		kubeletSkew(tool, kubelet, controlPlane),
		kubeletArgs(l, kubelet),
		kubeletService(),
		kubeletPort(l.Paths),
	}
}
