package nodes

import (
	"strings"
	"text/template"
)

// PodSubnet is the Pod CIDR of a cluster without IPv6.
const PodSubnet = "10.244.0.0/16"

// IgnoredPreflight are the preflight checks that a sandboxed node fails and a real host passes, as
// a value of --ignore-preflight-errors: cgroup v1, the bridge's netfilter switch, and what depends
// on the size of the machine.
const IgnoredPreflight = "SystemVerification,FileContent--proc-sys-net-bridge-bridge-nf-call-iptables,Swap,Mem,NumCPU"

// Config says how a cluster's configuration differs from the default.
type Config struct {
	Address  string // where the first API server listens
	Endpoint string // controlPlaneEndpoint; may be empty
	Version  string // of Kubernetes; empty: v1.37.1

	// NodeIPs are the addresses of a dual-stack node. Pods and Services are dual-stack too if it
	// is set.
	NodeIPs []string

	// Further fields as indented YAML, of InitConfiguration, its nodeRegistration,
	// ClusterConfiguration and KubeletConfiguration.
	Init, Registration, Cluster, Kubelet string
}

var initConfig = template.Must(template.New("init").Parse(
	`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: {{.Address}}
nodeRegistration:
  ignorePreflightErrors: [{{.Ignored}}]
{{.Registration}}{{.Init}}---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: {{.Version}}
{{with .Endpoint}}controlPlaneEndpoint: {{.}}
{{end}}networking:
  podSubnet: {{.Pods}}
{{with .Services}}  serviceSubnet: {{.}}
{{end}}{{.Cluster}}---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
# All nodes share one disk; how full it is says nothing about this cluster.
evictionHard:
  memory.available: 50Mi
  nodefs.available: 1%
  imagefs.available: 1%
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
{{.Kubelet}}---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack:
  maxPerCore: 0
`))

// InitConfig writes the configuration file for kubeadm init on a sandboxed node.
func InitConfig(c Config) string {
	if c.Version == "" {
		c.Version = "v1.37.1"
	}
	families := familiesOf(append([]string{c.Address}, c.NodeIPs...))
	c.Init, c.Registration = withNewline(c.Init),
		NodeIPArgument(c.NodeIPs)+withNewline(c.Registration)
	c.Cluster, c.Kubelet = withNewline(c.Cluster), withNewline(c.Kubelet)
	var b strings.Builder
	values := struct {
		Config
		Ignored, Pods, Services string
	}{c, strings.ReplaceAll(IgnoredPreflight, ",", ", "), families.PodSubnets(), ""}
	if families != IPv4Only {
		values.Services = families.ServiceSubnets()
	}
	if err := initConfig.Execute(&b, values); err != nil {
		panic(err) // The values are strings: only a wrong template can fail.
	}
	return b.String()
}

// NodeIPArgument returns the field of nodeRegistration that a dual-stack node needs; empty for
// others.
func NodeIPArgument(addresses []string) string {
	if len(addresses) < 2 {
		return ""
	}
	return "  kubeletExtraArgs:\n  - {name: node-ip, value: \"" + strings.Join(addresses, ",") +
		"\"}\n"
}

// withNewline appends a line break to a text, unless it is empty or has one.
func withNewline(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
