package manifest_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/node"
)

// authorizers is a control plane with much of its own: authorizers and users by files, a cloud,
// volumes in place of ours.
func authorizers() *node.Node {
	const files = "/etc/kubernetes/authorization"
	n := ordinary()
	n.KubeletArgs = []node.Arg{{Name: "cloud-provider", Value: "external"},
		{Name: "node-labels", Value: "a=b"}, {Name: "node-labels", Value: "c=d"}}
	c := &n.Cluster
	c.PodSubnet, c.ServiceSubnet = "10.244.0.0/16,fd00:10:244::/56", "10.96.0.0/16,fd00:10:96::/112"
	c.APIServer = node.Component{
		Args: []node.Arg{
			{Name: "authorization-mode", Value: "Node,RBAC,ABAC,Webhook"},
			{Name: "authorization-policy-file", Value: files + "/policy.jsonl"},
			{Name: "authorization-webhook-config-file", Value: files + "/webhook.conf"},
			{Name: "token-auth-file", Value: "/etc/kubernetes/pki/tokens.csv"},
			{Name: "secure-port", Value: "7443"},
			{Name: "advertise-address", Value: "192.0.2.99"},
		},
		Volumes: []node.Volume{
			{Name: "authorization", HostPath: files, MountPath: files, ReadOnly: true,
				PathType: corev1.HostPathDirectory},
			{Name: "k8s-certs", HostPath: "/srv/pki", MountPath: "/etc/kubernetes/pki",
				PathType: corev1.HostPathDirectoryOrCreate},
			{Name: "twice", HostPath: "/srv/one", MountPath: "/one"},
			{Name: "twice", HostPath: "/srv/two", MountPath: "/two"},
		},
	}
	c.ControllerManager = node.Component{
		Args: []node.Arg{
			{Name: "cloud-provider", Value: "external"}, {Name: "secure-port", Value: "20257"},
			{Name: "bind-address", Value: "192.0.2.10"}, {Name: "bind-address", Value: "::"},
			{Name: "flex-volume-plugin-dir", Value: "/opt/plugins"},
		},
		Envs: []corev1.EnvVar{{Name: "B", Value: "1"}, {Name: "A", Value: "2"},
			{Name: "B", Value: "3"}},
		Volumes: []node.Volume{{Name: "kubeconfig", HostPath: "/srv/kubeconfig",
			MountPath: "/srv/kubeconfig",
			ReadOnly:  true, PathType: corev1.HostPathFileOrCreate}},
	}
	c.Scheduler = node.Component{
		Args: []node.Arg{{Name: "config", Value: "/etc/kubernetes/scheduler.yaml"},
			{Name: "leader-elect", Value: "false"}},
		Envs: []corev1.EnvVar{{Name: "EMPTY"}},
	}
	c.Etcd.ImageRepository = "images.example.com/etcd"
	c.Etcd.Args = []node.Arg{
		{Name: "snapshot-count", Value: "5000"}, {Name: "auto-compaction-retention", Value: "1h"},
		{Name: "listen-metrics-urls", Value: "https://:9999"},
	}
	c.KubeProxy.Generated = false
	c.KubeProxy.Config.Mode, c.KubeProxy.Config.ClusterCIDR = "ipvs", c.PodSubnet
	return n
}

// plainEtcd is a control plane on IPv6 alone, with an etcd without client authentication.
func plainEtcd() *node.Node {
	n := ordinary()
	n.Address = "2001:db8::10"
	n.Timeouts.ControlPlane = 10 * time.Minute
	c := &n.Cluster
	c.ImageRepository, c.Endpoint = "images.example.com/mirror", "[2001:db8::1]:443"
	c.PodSubnet, c.ServiceSubnet = "fd00:10:244::/56", "fd00:10:96::/112"
	c.DNS.ImageRepository = "registry.k8s.io"
	c.Etcd.External = &node.ExternalEtcd{Endpoints: []string{"http://[2001:db8::21]:2379"}}
	c.Kubelet.Config.ClusterDNS = []string{"fd00:10:96::a"}
	c.KubeProxy.Config.BindAddress, c.KubeProxy.Config.ClusterCIDR = "::", c.PodSubnet
	return n
}

// older is a control plane of a release that only its own peer deploys.
func older(version string) *node.Node {
	n := ordinary()
	n.Cluster.Version, n.Cluster.PodSubnet = version, "10.244.0.0/16"
	n.Cluster.ControllerManager.Args = []node.Arg{{Name: "flex-volume-plugin-dir",
		Value: "/opt/plugins"}}
	return n
}
