package reconfiguration

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/certstore"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/manifestinput"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/staticpod"
)

// Effects are what a change of the configuration means for the nodes and the cluster.
type Effects struct {
	// Certificates are issued again on each control plane node, by the names of pki.Profile. Their
	// components read them without a restart.
	Certificates []string `json:"certificates,omitempty"`
	// Restarted are the components that are replaced on each control plane node, in this order.
	Restarted []string `json:"restarted,omitempty"`
	// Kubelet is set if the configuration of all kubelets changes, which are restarted.
	Kubelet bool `json:"kubelet"`
	// KubeProxy is set if the Pods of kube-proxy are replaced.
	KubeProxy bool `json:"kubeProxy"`
	// CoreDNS is set if the Pods of CoreDNS are replaced.
	CoreDNS bool `json:"coreDNS"`
	// Later are the changes that take effect at another time, a sentence each.
	Later []string `json:"later,omitempty"`
}

// None reports whether nothing is to be done.
func (f Effects) None() bool { return reflect.DeepEqual(f, Effects{}) }

// FindEffects returns what differs for a node between two configurations of its cluster. What the node
// runs at the moment does not matter.
func FindEffects(ctx context.Context, e *engine.Env, before, after *node.Node) (f Effects, err error) {
	if after.Role == node.ControlPlane {
		for _, p := range pki.Profiles() {
			old, _, err := before.CertificateNames().SANs(p.SANs)
			if err != nil {
				return f, err
			}
			wanted, _, err := after.CertificateNames().SANs(p.SANs)
			if err != nil {
				return f, err
			}
			if old.String() != wanted.String() {
				f.Certificates = append(f.Certificates, p.Name)
			}
		}
		for _, component := range Order(after, isGateOff(gatesOf(before), gatesOf(after))) {
			old, err := staticpod.RenderPresent(ctx, e, before, component)
			if err != nil {
				return f, err
			}
			wanted, err := staticpod.RenderPresent(ctx, e, after, component)
			if err != nil {
				return f, err
			}
			same, err := staticpod.EqualManifests(old.Data, wanted.Data)
			if err != nil {
				return f, err
			}
			if !same {
				f.Restarted = append(f.Restarted, component)
			}
		}
	}
	f.Kubelet = !reflect.DeepEqual(before.Cluster.Kubelet.Config, after.Cluster.Kubelet.Config)
	if err := f.addAddons(ctx, e, before, after); err != nil {
		return f, err
	}
	f.addLater(before.Cluster, after.Cluster)
	return f, nil
}

// AddUnfinished adds what CoreDNS and kube-proxy lack if they have one of other configurations.
func (f *Effects) AddUnfinished(ctx context.Context, e *engine.Env, after *node.Node, others ...*node.Node) error {
	for _, before := range others {
		var begun Effects
		if err := begun.addAddons(ctx, e, before, after); err != nil {
			return err
		}
		f.CoreDNS, f.KubeProxy = f.CoreDNS || begun.CoreDNS, f.KubeProxy || begun.KubeProxy
	}
	return nil
}

func (f *Effects) addAddons(ctx context.Context, e *engine.Env, before, after *node.Node) error {
	host, patches, err := manifestinput.Read(ctx, e.World, after, e.Named("patches").WarnOnce)
	if err != nil {
		return err
	}
	var proxies [2]manifest.KubeProxy
	var dns [2]manifest.CoreDNS
	for i, n := range []*node.Node{before, after} {
		if proxies[i], err = manifest.NewKubeProxy(n, host, patches); err != nil {
			return err
		}
		if dns[i], err = manifest.NewCoreDNS(n, 0, patches); err != nil {
			return err
		}
	}
	f.KubeProxy = !after.Cluster.Proxy.Disabled &&
		(before.Cluster.Proxy.Disabled || !reflect.DeepEqual(proxies[0], proxies[1]))
	f.CoreDNS = !after.Cluster.DNS.Disabled &&
		(before.Cluster.DNS.Disabled || !reflect.DeepEqual(dns[0].Deployment, dns[1].Deployment))
	return nil
}

// addLater adds what a change does not do at once.
func (f *Effects) addLater(before, after node.Cluster) {
	if before.CertValidity != after.CertValidity || before.Algorithm != after.Algorithm {
		f.Later = append(f.Later, "certificateValidityPeriod and encryptionAlgorithm apply to certificates "+
			"that are issued or renewed from now on")
	}
	if before.CAValidity != after.CAValidity {
		f.Later = append(f.Later, "caCertificateValidityPeriod applies to the CAs of the next CA rotation")
	}
	for _, addon := range []struct {
		field         string
		before, after bool
	}{
		{"dns.disabled", before.DNS.Disabled, after.DNS.Disabled},
		{"proxy.disabled", before.Proxy.Disabled, after.Proxy.Disabled},
	} {
		if addon.after && !addon.before {
			f.Later = append(f.Later, addon.field+" stops upgrades from managing the addon; its objects stay "+
				"until you delete them")
		}
	}
	a, b := before.Kubelet.Config, after.Kubelet.Config
	if a == nil || b == nil {
		return
	}
	if !reflect.DeepEqual(a.ClusterDNS, b.ClusterDNS) || a.ClusterDomain != b.ClusterDomain ||
		!reflect.DeepEqual(a.ResolverConfig, b.ResolverConfig) || !reflect.DeepEqual(a.PodPidsLimit, b.PodPidsLimit) {
		f.Later = append(f.Later, "clusterDNS, clusterDomain, resolvConf and podPidsLimit of the kubelet apply "+
			"to Pods that start after its restart")
	}
	if lowersRoom(a, b) {
		f.Later = append(f.Later, "a kubelet that restarts checks whether each Pod of its node still fits maxPods, the reserved "+
			"resources and the eviction limits, and stops those that do not")
	}
}

// lowersRoom reports whether fewer Pods may fit on a node.
func lowersRoom(a, b *kubeletconfig.KubeletConfiguration) bool {
	const defaultMaxPods = 110
	return cmp.Or(b.MaxPods, defaultMaxPods) < cmp.Or(a.MaxPods, defaultMaxPods) ||
		b.PodsPerCore > 0 && (a.PodsPerCore == 0 || b.PodsPerCore < a.PodsPerCore) ||
		!reflect.DeepEqual(a.KubeReserved, b.KubeReserved) || !reflect.DeepEqual(a.SystemReserved, b.SystemReserved) ||
		!reflect.DeepEqual(a.EvictionHard, b.EvictionHard)
}

// Order is the order in which the static Pods of a control plane node are replaced: first etcd. Where a
// feature gate is turned off, the API server comes last, after the components that use it.
func Order(n *node.Node, apiServerLast bool) []string {
	all := staticpod.Components(n)
	if apiServerLast {
		first := 0
		if all[0] == manifest.Etcd {
			first = 1
		}
		slices.Reverse(all[first:])
	}
	return all
}

// ComparePods returns how to find out whether two manifests of a component describe the same Pod. The proxy
// variables of a manifest are those of the shell in which it was written, and no change, unless the
// configuration before or after sets them.
func ComparePods(before, after *node.Node, component string) func(a, b []byte) (bool, error) {
	for _, n := range []*node.Node{before, after} {
		envs := map[string][]corev1.EnvVar{manifest.Etcd: n.Cluster.Etcd.Envs,
			release.APIServer:         n.Cluster.APIServer.Envs,
			release.ControllerManager: n.Cluster.ControllerManager.Envs,
			release.Scheduler:         n.Cluster.Scheduler.Envs}[component]
		if slices.ContainsFunc(envs, func(v corev1.EnvVar) bool {
			return strings.HasSuffix(strings.ToLower(v.Name), "_proxy")
		}) {
			return staticpod.EqualManifests
		}
	}
	return staticpod.EqualButForProxy
}

// DrainedFields are the fields of the kubelet's configuration that differ, and with which a kubelet does
// not start on a node that runs Pods, or leaves them behind.
func DrainedFields(a, b *kubeletconfig.KubeletConfiguration) (fields []string) {
	for _, f := range []struct {
		name          string
		before, after any
	}{
		{"cpuManagerPolicy", cmp.Or(a.CPUManagerPolicy, "none"), cmp.Or(b.CPUManagerPolicy, "none")},
		{"cpuManagerPolicyOptions", fmt.Sprint(a.CPUManagerPolicyOptions), fmt.Sprint(b.CPUManagerPolicyOptions)},
		{"memoryManagerPolicy", cmp.Or(a.MemoryManagerPolicy, "None"), cmp.Or(b.MemoryManagerPolicy, "None")},
		{"reservedMemory", a.ReservedMemory, b.ReservedMemory},
		{"reservedSystemCPUs", a.ReservedSystemCPUs, b.ReservedSystemCPUs},
		{"topologyManagerPolicy", cmp.Or(a.TopologyManagerPolicy, "none"), cmp.Or(b.TopologyManagerPolicy, "none")},
		{"cgroupDriver", a.CgroupDriver, b.CgroupDriver},
		{"cgroupRoot", a.CgroupRoot, b.CgroupRoot},
		{"cgroupsPerQOS", a.CgroupsPerQOS, b.CgroupsPerQOS},
	} {
		if !reflect.DeepEqual(f.before, f.after) {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// SANChange is a certificate of this machine whose SANs are to change.
type SANChange struct {
	Certificate pki.Renewable
	SANs        pki.SANs // of the new one
	// Adds is set if the certificate lacks a name; otherwise it only has one that the change removes.
	Adds bool
}

// FindSANChanges returns the certificates of this control plane node that lack a SAN of the configuration,
// or have one that the change removes. Other SANs that a certificate has, it keeps: they were added in
// another way.
func FindSANChanges(ctx context.Context, e *engine.Env, before, after *node.Node) (all []SANChange, err error) {
	local, _ := node.HasLocalEtcd(after)
	for _, c := range pki.Renewables() {
		p, isPair := pki.ProfileOf(c.Name)
		if !isPair || p.SANs == pki.NoSANs || p.LocalEtcdOnly() && !local {
			continue
		}
		cert, err := certstore.ReadRenewable(ctx, e.World, after.Paths, c)
		if err != nil {
			return nil, err
		}
		if cert == nil {
			return nil, fmt.Errorf("%s does not exist", after.Paths.Cert(p.Base))
		}
		old, _, err := before.CertificateNames().SANs(p.SANs)
		if err != nil {
			return nil, err
		}
		wanted, ignored, err := after.CertificateNames().SANs(p.SANs)
		if err != nil {
			return nil, err
		}
		for _, name := range ignored {
			e.WarnOnce("%q is neither an IP address nor a DNS name and is left out of the %s certificate",
				name, p.Name)
		}
		has := pki.SANsOf(cert)
		kept := has.Without(old.Without(wanted))
		adds := len(wanted.MissingFrom(cert)) > 0
		if adds || kept.String() != has.String() {
			all = append(all, SANChange{c, wanted.Plus(kept), adds})
		}
	}
	return all, nil
}
