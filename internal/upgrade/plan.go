package upgrade

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// Component is one row of a plan: a component on a node, or in the whole cluster if NodeName is
// empty.
type Component struct {
	Name           string `json:"name"`
	CurrentVersion string `json:"currentVersion"`
	NewVersion     string `json:"newVersion"`
	NodeName       string `json:"nodeName,omitempty"`
}

// Names of components in a plan that are not those of a static Pod.
const (
	kubelet = "kubelet"
	coreDNS = "CoreDNS"
	kubeadm = "kubeadm"
)

// IsUpgradedByHand reports whether the administrator replaces the component, and not "upgrade
// apply".
func (c Component) IsUpgradedByHand() bool { return c.Name == kubelet || c.Name == kubeadm }

// IsKubelet reports whether the row is that of a kubelet.
func (c Component) IsKubelet() bool { return c.Name == kubelet }

// Components lists what an upgrade to the candidate changes: kubelets, unless all have that
// version, the control plane, add-ons that are not disabled, kubeadm, and, if withEtcd, the local
// etcd members.
func (c *Cluster) Components(to Candidate, tool release.Tool, withEtcd bool) ([]Component, error) {
	target, err := release.ParseTarget(to.String())
	if err != nil {
		return nil, err
	}
	images := release.Images{
		Target: target,
		DNS:    release.ImageChoice{Tag: c.Config.DNS.ImageTag},
		Etcd:   release.ImageChoice{Tag: c.Config.Etcd.ImageTag},
	}
	var rows []Component
	add := func(name, newVersion string, instances ...Instance) {
		for _, i := range instances {
			rows = append(rows, Component{name, i.Version, newVersion, i.Node})
		}
	}
	isOther := func(i Instance) bool { return i.Version != to.String() }
	if slices.ContainsFunc(c.Kubelets, isOther) {
		add(kubelet, to.String(), c.Kubelets...)
	}
	for _, name := range controlPlaneComponents() {
		add(name, to.String(), c.ControlPlane[name]...)
	}
	if !c.Config.Proxy.Disabled {
		// It has the version of the cluster, written without "v" as other programs know it.
		add(release.Proxy, to.String(), Instance{Version: c.Version.String()})
	}
	if !c.Config.DNS.Disabled {
		add(coreDNS, images.CoreDNSTag(), Instance{Version: c.CoreDNS})
	}
	add(kubeadm, kubeadmFor(to, tool), Instance{Version: tool.String()})
	if withEtcd {
		for _, i := range c.ControlPlane[release.Etcd] {
			tag := images.EtcdTag()
			if stays(i, images.EtcdVersion()) {
				tag = i.Version
			}
			add(release.Etcd, tag, i)
		}
	}
	return rows, nil
}

// FindProblems lists the stored settings with which a component of the candidate does not start, or that
// have no effect then: arguments, and feature gates.
func (c *Cluster) FindProblems(to Candidate) ([]manifest.ComponentProblem, error) {
	n := &node.Node{Cluster: c.Config}
	n.Cluster.Version = to.String()
	list, err := manifest.FindArgProblems(n)
	return append(list, manifest.FindKubeletGateProblems(n, to.Version)...), err
}

// stays reports whether an etcd member is newer than that of the upgrade: etcd cannot be downgraded.
func stays(member Instance, wanted *version.Version) bool {
	running := release.EtcdVersion(member.Version)
	return running != nil && wanted.LessThan(running)
}

// controlPlaneComponents are those that have the version of the cluster.
func controlPlaneComponents() []string {
	return []string{release.APIServer, release.ControllerManager, release.Scheduler}
}

// kubeadmFor is the version of kubeadm to upgrade with: this one, unless it is older than the
// candidate.
func kubeadmFor(to Candidate, tool release.Tool) string {
	if tool.Version().LessThan(to.Version) {
		return to.String()
	}
	return tool.String()
}
