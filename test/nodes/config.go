package nodes

import (
	"strings"
	"text/template"
)

// PodSubnet is where the Pods of a cluster without IPv6 get their addresses from.
const PodSubnet = "10.244.0.0/16"

// IgnoredPreflight are the preflight checks that a sandboxed node fails and a real host passes, as
// --ignore-preflight-errors wants them: version 1 of control groups, the bridge's netfilter switch, and what depends on
// the size of the machine below.
const IgnoredPreflight = "SystemVerification,FileContent--proc-sys-net-bridge-bridge-nf-call-iptables,Swap,Mem,NumCPU"

// Config says how a cluster differs from the plain one.
type Config struct {
	Address  string // where the first API server listens
	Endpoint string // of all API servers together (controlPlaneEndpoint); empty: none
	Version  string // of Kubernetes; empty: v1.37.1

	// NodeIPs are the addresses of a node that has one of each family: Pods and Services then have both too.
	NodeIPs []string

	// Further fields, as indented YAML: below InitConfiguration, its nodeRegistration, ClusterConfiguration, KubeletConfiguration.
	Init, Registration, Cluster, Kubelet string
}

var initConfig = template.Must(template.New("init").Funcs(template.FuncMap{"list": yamlFlowList}).Parse(
	`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint:
  advertiseAddress: {{.Address}}
nodeRegistration:
  ignorePreflightErrors: {{list .Ignored}}
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
	c.Init, c.Registration = withNewline(c.Init), NodeIPArgument(c.NodeIPs)+withNewline(c.Registration)
	c.Cluster, c.Kubelet = withNewline(c.Cluster), withNewline(c.Kubelet)
	var b strings.Builder
	values := struct {
		Config
		Ignored, Pods, Services string
	}{c, IgnoredPreflight, families.PodSubnets(), ""}
	if families != IPv4Only {
		values.Services = families.ServiceSubnets()
	}
	if err := initConfig.Execute(&b, values); err != nil {
		panic(err) // Only a wrong template can fail: its values are strings.
	}
	return b.String()
}

// NodeIPArgument is the field of nodeRegistration that a node with an address of each family needs; empty for others.
func NodeIPArgument(addresses []string) string {
	if len(addresses) < 2 {
		return ""
	}
	return "  kubeletExtraArgs:\n  - {name: node-ip, value: \"" + strings.Join(addresses, ",") + "\"}\n"
}

// withNewline ends a text that is not empty with a line break.
func withNewline(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

func yamlFlowList(comma string) string { return "[" + strings.ReplaceAll(comma, ",", ", ") + "]" }
