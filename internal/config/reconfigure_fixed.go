package config

import (
	"cmp"
	"maps"
	"net"
	"slices"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/manifest"
	"kubeadm/internal/release"
)

// fixedField is a field of the ClusterConfiguration that keeps its value as long as a cluster lives.
type fixedField struct {
	path string
	of   func(*v1beta4.ClusterConfiguration) *string
	why  string // and what can be done instead
}

func fixedFields() []fixedField {
	type cluster = v1beta4.ClusterConfiguration
	return []fixedField{
		{"controlPlaneEndpoint", func(c *cluster) *string { return &c.ControlPlaneEndpoint },
			"every kubelet and kubeconfig of the cluster connects to it; to change it, use \"kubeadm endpoint change\""},
		{"networking.podSubnet", func(c *cluster) *string { return &c.Networking.PodSubnet },
			"the Pod CIDRs of the Nodes, which cannot be changed, are parts of it"},
		{"networking.serviceSubnet", func(c *cluster) *string { return &c.Networking.ServiceSubnet },
			"the cluster IPs of all Services are in it; for more addresses, create another ServiceCIDR"},
		{"networking.dnsDomain", func(c *cluster) *string { return &c.Networking.DNSDomain },
			"running Pods and service account tokens contain it; a second zone in the Corefile can serve another domain"},
		{"clusterName", func(c *cluster) *string { return &c.ClusterName },
			"kubeconfigs and resources of cloud providers are named after it"},
		{"certificatesDir", func(c *cluster) *string { return &c.CertificatesDir },
			"the components read their certificates there"},
	}
}

// keepFixed fills in, from the present configuration, the fields that a running cluster cannot change. A field that has
// another value in the file becomes a fault.
func keepFixed(wanted, present *v1beta4.ClusterConfiguration, target release.Target, wrong *faults) {
	if text := wanted.KubernetesVersion; text != "" && !release.IsLabel(text) {
		if t, err := release.ParseTarget(text); err != nil || t.Stored() != target.Stored() {
			wrong.add("%s kubernetesVersion: the cluster runs %s; to change the version, "+
				"use \"kubeadm upgrade apply\"", v1beta4.KindCluster, target)
		}
	}
	keepFields(wanted, present, fixedFields(), wrong)
	if wanted.Etcd.Local == nil && wanted.Etcd.External == nil {
		wanted.Etcd = present.Etcd
	}
	local, external := wanted.Etcd.Local, wanted.Etcd.External
	switch {
	case (local == nil) != (present.Etcd.Local == nil) || local != nil && external != nil:
		wrong.add("%s etcd: a running cluster cannot move between a local and an external etcd",
			v1beta4.KindCluster)
	case external != nil && !slices.Equal(external.Endpoints, present.Etcd.External.Endpoints):
		wrong.add("%s etcd.external.endpoints: a running cluster cannot change them: another etcd has other data",
			v1beta4.KindCluster)
	case local != nil:
		if local.DataDir = cmp.Or(local.DataDir, present.Etcd.Local.DataDir); local.DataDir != present.Etcd.Local.DataDir {
			wrong.add("%s etcd.local.dataDir: a running cluster cannot change it from %q: the data of "+
				"each member are there", v1beta4.KindCluster, present.Etcd.Local.DataDir)
		}
	}
}

// keepFields completes fields, and adds those with another value to the faults.
func keepFields(wanted, present *v1beta4.ClusterConfiguration, fields []fixedField, wrong *faults) {
	for _, f := range fields {
		now, is := f.of(wanted), *f.of(present)
		if f.path == "controlPlaneEndpoint" && isSameEndpoint(*now, is) {
			*now = is
		}
		if *now = cmp.Or(*now, is); *now != is {
			wrong.add("%s: a running cluster cannot change it from %q: %s",
				wrong.fieldName(v1beta4.KindCluster, f.path), is, f.why)
		}
	}
}

// isSameEndpoint reports whether an endpoint without a port is the stored one.
func isSameEndpoint(wanted, stored string) bool {
	host, _, err := net.SplitHostPort(stored)
	return err == nil && wanted == host
}

// fixedArgs are arguments that a running cluster keeps, by component, and why.
func fixedArgs() map[string]map[string]string {
	const (
		data     = "the data of each member are there; to move them to another disk, mount it at the present directory"
		members  = "each member has its own, and the others know it by that"
		services = "the cluster IPs of all Services are in it; for more addresses, create another ServiceCIDR"
		clients  = "all clients of this API server, and its probes, use it"
	)
	return map[string]map[string]string{
		manifest.Etcd: {"data-dir": data, "wal-dir": data, "name": members, "initial-advertise-peer-urls": members,
			"force-new-cluster": "the other members would be lost; use \"kubeadm etcd recover\""},
		release.APIServer: {"etcd-prefix": "all objects of the cluster are below it", "etcd-servers": "another etcd has other data",
			"service-cluster-ip-range": services, "secure-port": clients,
			"advertise-address": "each node has its own; use \"kubeadm address change\""},
		release.ControllerManager: {"service-cluster-ip-range": services,
			"cluster-cidr": "the Pod CIDRs of the Nodes, which cannot be changed, are parts of it"},
	}
}

// valuesOfFixedArgs are the values of fixed arguments in a configuration, by "component:argument".
func valuesOfFixedArgs(c *v1beta4.ClusterConfiguration) map[string]string {
	values := map[string]string{}
	for component, fixed := range fixedArgs() {
		args := argsOf(c, component)
		if args == nil {
			continue
		}
		for _, a := range *args {
			if _, isFixed := fixed[a.Name]; isFixed {
				values[component+":"+a.Name] += a.Value + "\n"
			}
		}
	}
	return values
}

// refuseFixedArgs adds the fixed arguments that a change sets, changes or removes to the faults.
func refuseFixedArgs(before, after map[string]string, wrong *faults) {
	all := fixedArgs()
	for _, component := range slices.Sorted(maps.Keys(all)) {
		for _, name := range slices.Sorted(maps.Keys(all[component])) {
			if at := component + ":" + name; before[at] != after[at] {
				wrong.add("argument %s of %s: a running cluster cannot change it: %s", name, component, all[component][name])
			}
		}
	}
}
