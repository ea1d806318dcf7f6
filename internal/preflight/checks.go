package preflight

import (
	"context"
	"net"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

// Root returns the check that every command that changes a machine runs first: that it is root.
func Root() []Check { return []Check{newPrivilegedUserCheck()} }

// Init returns the checks of a machine that becomes the first control plane of a cluster. They
// share cached queries: call it again for each Run.
func Init(n *node.Node, tool release.Tool) []Check {
	return slices.Concat(
		[]Check{newCPUCheck(), newMemoryCheck(), newKubernetesVersionCheck(n.Cluster.Version, tool),
			newFirewalldCheck(n.BindPort)},
		newControlPlanePortChecks(n),
		newManifestChecks(n.Paths),
		[]Check{newProxyCheck(n.Address)},
		newCIDRProxyChecks(clusterCIDRs(n)),
		newNodeChecks(&n.Local, tool, parseVersionOrNil(n.Cluster.Version)),
		newForwardingChecks(append(clusterCIDRs(n), n.Address)),
		newExternalEtcdVersionChecks(n.Cluster.Etcd.External),
		newLocalEtcdChecks(n),
		newExternalEtcdFileChecks(n.Cluster.Etcd.External),
		newComponentFileChecks(n),
		newObstacleChecks(n),
		newRootlessAccountChecks(n),
	)
}

// Join returns the checks of a machine that becomes a node of a cluster, those before
// discovery. They share cached queries: call it again for each Run.
func Join(l *node.Local, tool release.Tool) []Check {
	list := slices.Concat(newKubeletCredentialChecks(l.Paths), newNodeChecks(l, tool, nil))
	if l.Role == node.Worker {
		list = append(list, newFileAvailableCheck(l.CACertPath))
	}
	host, _, err := net.SplitHostPort(l.Discovery.Endpoint)
	if err != nil {
		return list
	}
	return slices.Concat(list, []Check{newProxyCheck(host)}, newForwardingChecks([]string{host}))
}

// AfterDiscovery returns the checks of any joining machine that need the discovered cluster's
// configuration.
func AfterDiscovery(n *node.Node) []Check {
	return []Check{newKubeletNewerCheck(parseVersionOrNil(n.Cluster.Version))}
}

// JoinControlPlane returns the checks, besides those of Join, of a machine that joins as a
// control plane.
func JoinControlPlane(n *node.Node, tool release.Tool) []Check {
	list := slices.Concat(
		[]Check{newCPUCheck(), newMemoryCheck(), newKubernetesVersionCheck(n.Cluster.Version, tool),
			newFirewalldCheck(n.BindPort)},
		newControlPlanePortChecks(n),
		newManifestChecks(n.Paths),
		[]Check{newProxyCheck(n.Address)},
		newCIDRProxyChecks(clusterCIDRs(n)),
		newLocalEtcdChecks(n),
		newComponentFileChecks(n),
		newObstacleChecks(n),
		newRootlessAccountChecks(n),
	)
	if n.CertificateKey != "" { // the files will be downloaded
		return list
	}
	return append(list, newExternalEtcdFileChecks(n.Cluster.Etcd.External)...)
}

// Upgrade returns the checks of a machine that is a node and is upgraded to the state of n. They
// share cached queries: call it again for each Run.
func Upgrade(n *node.Node) []Check {
	kubelet := query[*version.Version](
		func(ctx context.Context, r state.Reader) (*version.Version, error) {
			v, err := readKubeletVersion(ctx, r)
			if err != nil {
				return nil, err
			}
			return v.WithMinor(v.Minor() + 1), nil // the kubelet is upgraded next
		}).cached()
	runtime := query[state.Runtime](
		func(ctx context.Context, r state.Reader) (state.Runtime, error) {
			return r.Runtime(ctx, n.CRISocket)
		}).cached()
	list := []Check{
		newRuntimeCheck(n.CRISocket, runtime),
		newRuntimeVersionCheck(runtime),
		newSystemVerificationCheck(kubelet),
	}
	if n.Role != node.ControlPlane {
		return list
	}
	return append(list, newObstacleChecks(n)...)
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
		Join(&local, release.Tool{})) {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return append(names, componentFile, ImagePull)
}

func clusterCIDRs(n *node.Node) []string {
	return slices.Concat(strings.Split(n.Cluster.ServiceSubnet, ","),
		strings.Split(n.Cluster.PodSubnet, ","))
}

// newNodeChecks returns the checks of any machine that runs a kubelet. If the control plane's
// version is nil, the kubelet's is compared with the tool's only.
func newNodeChecks(l *node.Local, tool release.Tool, controlPlane *version.Version) []Check {
	kubelet := query[*version.Version](readKubeletVersion).cached()
	runtime := query[state.Runtime](
		func(ctx context.Context, r state.Reader) (state.Runtime, error) {
			return r.Runtime(ctx, l.CRISocket)
		}).cached()
	return []Check{
		newRuntimeCheck(l.CRISocket, runtime),
		newRuntimeVersionCheck(runtime),
		newSwapCheck(),
		newProgramCheck("losetup"),
		newProgramCheck("mount"),
		newProgramCheck("cp"),
		newSystemVerificationCheck(kubelet),
		newHostnameCheck(l.Name),
		newKubeletSkewCheck(tool, kubelet, controlPlane),
		newKubeletArgsCheck(l, kubelet),
		newKubeletServiceCheck(),
		port{number: kubeletServer, user: "the kubelet", causes: kubeletTargets(l.Paths)}.check(),
	}
}
