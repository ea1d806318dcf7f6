package manifest_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
)

// scenario is the intent that testdata/<name>/kubeadm.yaml stands for.
type scenario struct {
	name    string
	node    *node.Node
	env     []string
	patches bool   // those in testdata/<name>/patches
	line    string // of the peer it was captured from; empty for the newest
}

func (s scenario) host() manifest.Host {
	return manifest.Host{
		CADirs: []string{"/etc/ca-certificates", "/usr/share/ca-certificates",
			"/usr/local/share/ca-certificates"},
		Env: s.env,
	}
}

func (s scenario) readPatches(t *testing.T) manifest.Patches {
	t.Helper()
	if !s.patches {
		return manifest.Patches{}
	}
	names, err := filepath.Glob(filepath.Join("testdata", s.name, "patches", "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	var files []manifest.PatchFile
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, manifest.PatchFile{Name: filepath.ToSlash(name), Data: data})
	}
	patches, notes, err := manifest.ParsePatches(files)
	if err != nil || len(notes) != 1 { // README.md
		t.Fatalf("reading patches: %v, notes %q", err, notes)
	}
	return patches
}

func scenarios() []scenario {
	return []scenario{
		{name: "defaults", node: ordinary()},
		{name: "external-etcd", node: externalEtcd()},
		{name: "dual-stack", node: dualStack()},
		{name: "extras", node: extras(), patches: true, env: []string{
			"PATH=/usr/bin:/bin", "https_proxy=http://proxy.example.com:3128",
			"HTTP_PROXY=http://proxy.example.com:3128",
			"no_proxy=*", "ALL_PROXY=", "PROXY_PORT=1",
		}},
		{name: "ci-build", node: ciBuild()},
		{name: "authorizers", node: authorizers()},
		{name: "plain-etcd", node: plainEtcd()},
		{name: "v1.35", node: older("v1.35.4"), line: "v1.35"},
		{name: "v1.34", node: older("v1.34.4"), line: "v1.34"},
	}
}

// ordinary is a first control plane of which the user says nothing but its address and name.
func ordinary() *node.Node {
	return &node.Node{
		Local: node.Local{
			Name: "cp1", Hostname: "vm", Role: node.ControlPlane, Address: "192.0.2.10",
			BindPort:  6443,
			CRISocket: "unix:///run/containerd/containerd.sock",
			Paths:     node.DefaultPaths(),
			Timeouts:  node.Timeouts{ControlPlane: 4 * time.Minute},
			Tokens:    []node.BootstrapToken{token("abcdef")},
		},
		Cluster: node.Cluster{
			Name: "kubernetes", Version: "v1.37.1", ImageRepository: "registry.k8s.io",
			ServiceSubnet: "10.96.0.0/12", DNSDomain: "cluster.local",
			Etcd:      node.Etcd{DataDir: "/var/lib/etcd"},
			Kubelet:   node.KubeletConfig{Config: kubelet(), Generated: true},
			KubeProxy: node.ProxyConfig{Config: proxy(), Generated: true},
		},
	}
}

func token(id string) node.BootstrapToken {
	return node.BootstrapToken{
		ID: id, Secret: "0123456789abcdef",
		Usages: []string{"signing", "authentication"}, Groups: []string{manifest.TokenGroup},
	}
}

func kubelet() *kubeletconfig.KubeletConfiguration {
	return &kubeletconfig.KubeletConfiguration{
		StaticPodPath: "/etc/kubernetes/manifests",
		ClusterDNS:    []string{"10.96.0.10"},
		ClusterDomain: "cluster.local",
		Authentication: kubeletconfig.KubeletAuthentication{
			X509:      kubeletconfig.KubeletX509Authentication{ClientCAFile: "/etc/kubernetes/pki/ca.crt"},
			Anonymous: kubeletconfig.KubeletAnonymousAuthentication{Enabled: new(false)},
			Webhook:   kubeletconfig.KubeletWebhookAuthentication{Enabled: new(true)},
		},
		Authorization:      kubeletconfig.KubeletAuthorization{Mode: kubeletconfig.KubeletAuthorizationModeWebhook},
		HealthzBindAddress: "127.0.0.1",
		HealthzPort:        new(int32(10248)),
		RotateCertificates: true,
		CgroupDriver:       "systemd",
	}
}

func proxy() *proxyconfig.KubeProxyConfiguration {
	c := &proxyconfig.KubeProxyConfiguration{BindAddress: "0.0.0.0", Mode: "iptables"}
	c.ClientConnection.Kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf"
	return c
}

func externalEtcd() *node.Node {
	n := ordinary()
	n.CRISocket = "unix:///var/run/crio/crio.sock"
	n.Tokens[0].Description = "for the first rack"
	second := token("ghijkl")
	second.Usages = []string{"authentication"}
	second.Groups = []string{"system:bootstrappers:rack:2", "system:bootstrappers:spare"}
	n.Tokens = append(n.Tokens, second)
	c := &n.Cluster
	c.Name, c.Version, c.ImageRepository = "blue", "v1.36.3", "images.example.com/mirror"
	c.Endpoint, c.PodSubnet = "api.example.com:8443", "10.244.0.0/16"
	c.Etcd.External = &node.ExternalEtcd{
		Endpoints: []string{"https://192.0.2.21:2379", "https://192.0.2.22:2379"},
		CAFile:    "/srv/etcd/ca/ca.crt", CertFile: "/srv/etcd/client/client.crt",
		KeyFile: "/srv/etcd/client.key",
	}
	c.Kubelet.Generated = false
	c.Kubelet.Config.CgroupDriver, c.Kubelet.Config.MaxPods = "cgroupfs", 50
	c.KubeProxy.Config.ClusterCIDR = c.PodSubnet
	return n
}

func dualStack() *node.Node {
	n := ordinary()
	n.Address, n.BindPort = "2001:db8::10", 8443
	n.Paths.Certificates = "/srv/pki"
	n.Timeouts.ControlPlane = 65 * time.Second
	c := &n.Cluster
	c.PodSubnet, c.ServiceSubnet = "fd00:10:244::/56,10.244.0.0/16", "fd00:10:96::/112,10.96.0.0/16"
	c.DNSDomain = "example.org"
	c.Etcd.DataDir = "/srv/etcd"
	c.Etcd.Args = []node.Arg{
		{Name: "listen-metrics-urls", Value: "https://[2001:db8::10]:9381,http://[::1]:2381"},
		{Name: "advertise-client-urls", Value: "https://[2001:db8::10]:2379"},
	}
	c.ControllerManager.Args = []node.Arg{{Name: "bind-address", Value: "::"}}
	c.Scheduler.Args = []node.Arg{{Name: "bind-address", Value: "2001:db8::10"},
		{Name: "secure-port", Value: "20259"}}
	k := c.Kubelet.Config
	k.ClusterDNS, k.ClusterDomain = []string{"fd00:10:96::a"}, c.DNSDomain
	k.Authentication.X509.ClientCAFile = "/srv/pki/ca.crt"
	c.KubeProxy.Config.BindAddress, c.KubeProxy.Config.ClusterCIDR = "::", c.PodSubnet
	return n
}

func extras() *node.Node {
	n := ordinary()
	n.KubeletArgs = []node.Arg{{Name: "v", Value: "4"}, {Name: "hostname-override", Value: "other"},
		{Name: "node-ip", Value: "192.0.2.10"}}
	c := &n.Cluster
	c.APIServer = node.Component{
		Args: []node.Arg{
			{Name: "authorization-config", Value: "/etc/kubernetes/authorization.yaml"},
			{Name: "enable-admission-plugins", Value: "NodeRestriction,AlwaysPullImages"},
			{Name: "audit-log-path", Value: "-"},
			{Name: "audit-log-path", Value: "/var/log/audit.log"},
		},
		Envs: []corev1.EnvVar{{Name: "ZEBRA", Value: "stripes"},
			{Name: "https_proxy", Value: "http://other.example.com:3128"}},
		Volumes: []node.Volume{
			{Name: "authorization", HostPath: "/etc/kubernetes/authorization.yaml",
				MountPath: "/etc/kubernetes/authorization.yaml",
				ReadOnly:  true, PathType: corev1.HostPathFile},
			{Name: "ca-certs", HostPath: "/srv/certs", MountPath: "/etc/ssl/certs"},
		},
	}
	c.ControllerManager = node.Component{
		Args: []node.Arg{{Name: "bind-address", Value: "0.0.0.0"},
			{Name: "controllers", Value: "*"}},
		Envs: []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"},
		}}},
	}
	c.Scheduler.Volumes = []node.Volume{{Name: "scheduling", HostPath: "/etc/kubernetes/scheduling",
		MountPath: "/scheduling",
		PathType:  corev1.HostPathDirectoryOrCreate}}
	c.DNS = node.Addon{ImageRepository: "images.example.com/dns", ImageTag: "v1.13.0"}
	c.Etcd.ImageTag = "3.6.8-0"
	c.Etcd.Args = []node.Arg{{Name: "listen-metrics-urls", Value: "http://0.0.0.0:2381"}}
	c.Etcd.Envs = []corev1.EnvVar{{Name: "GOMAXPROCS", Value: "4"},
		{Name: "ETCD_LOG_LEVEL", Value: "debug"}, {Name: "GOMAXPROCS", Value: "2"}}
	c.KubeProxy.Generated = false
	c.KubeProxy.Config.Mode, c.KubeProxy.Config.BindAddress = "nftables", "192.0.2.10"
	return n
}

func ciBuild() *node.Node {
	n := ordinary()
	c := &n.Cluster
	c.Version, c.CIBuild = "v1.37.0-beta.0.25+1a2b3c4d5e6f70", true
	c.APIServer.Args = []node.Arg{{Name: "authorization-mode", Value: "Node,RBAC,Webhook"}}
	c.PodSubnet, c.ServiceSubnet = "10.244.0.0/16", "10.100.0.0/24"
	c.Kubelet.Config.ClusterDNS = []string{"10.100.0.10"}
	c.KubeProxy.Config.ClusterCIDR = c.PodSubnet
	return n
}
