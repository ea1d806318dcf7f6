package parity

import (
	"slices"
	"strings"
)

// allTools are the programs that preflight looks for.
var allTools = strings.Fields(
	"kubelet mount cp losetup iptables ip ethtool tc ebtables nsenter socat touch crictl conntrack")

// toolsWithout returns all programs but one.
func toolsWithout(name string) []string {
	return slices.DeleteFunc(slices.Clone(allTools), func(s string) bool { return s == name })
}

// preflightCases are machines with one problem each.
func preflightCases() []testCase {
	var list []testCase
	add := func(name string, m machine, steps ...step) {
		m.files, m.runtime = mergeFiles(withFiles("/base.yaml", baseConfig().text()), m.files), true
		if m.tools == nil {
			m.tools = allTools
		}
		list = append(list, testCase{"preflight: " + name, m, steps})
	}
	const initial, joining = "init phase preflight --config=/base.yaml",
		"join phase preflight --config=/join.yaml"
	add("in order", machine{}, ignoreOutput(initial))
	add("all ignored", machine{}, ignoreOutput(initial+" --ignore-preflight-errors=all"))
	add("some ignored", machine{},
		ignoreOutput(initial+" --ignore-preflight-errors=NumCPU,mem,SystemVerification,Swap"))
	add("all and others ignored", machine{},
		ignoreOutput(initial+" --ignore-preflight-errors=all,Swap"))
	for _, tool := range allTools {
		add("no "+tool, machine{tools: toolsWithout(tool)}, ignoreOutput(initial))
	}
	for _, port := range strings.Fields("6443 10259 10257 10250 2379 2380 2381") {
		add("port "+port+" taken", machine{ports: []string{"0.0.0.0:" + port}},
			ignoreOutput(initial))
		add("port "+port+" taken on the loopback", machine{ports: []string{"127.0.0.1:" + port}},
			ignoreOutput(initial))
	}
	for _, file := range strings.Fields(
		"kube-apiserver kube-controller-manager kube-scheduler etcd") {
		add("a manifest of "+file,
			machine{files: map[string]string{"/etc/kubernetes/manifests/" + file +
				".yaml": "kind: Pod\n"}}, ignoreOutput(initial))
	}
	for _, file := range strings.Fields(
		"/var/lib/etcd/member/snap /etc/kubernetes/kubelet.conf /etc/kubernetes/admin.conf /etc/kubernetes/bootstrap-kubelet.conf /etc/kubernetes/pki/ca.crt /var/lib/kubelet/config.yaml /etc/kubernetes/manifests/other.yaml") {
		m := machine{files: map[string]string{file: "something\n", "/join.yaml": joinFile}}
		add("there is "+file[strings.LastIndex(file, "/")+1:], m, ignoreOutput(initial))
		add("there is "+file[strings.LastIndex(file, "/")+1:]+" at a join", m,
			ignoreOutput(joining))
	}
	external := documents{"ClusterConfiguration": {"etcd": map[string]any{"external": map[string]any{"endpoints": []any{"http://10.0.0.1:2379"}}}}}
	add("no such external etcd",
		machine{files: map[string]string{"/base.yaml": external.mergeInto(baseConfig()).text()}},
		ignoreOutput(initial))
	add("external CA incomplete",
		machine{stage: "pki",
			lacks: append([]string{"/etc/kubernetes/pki/ca.key"}, leafFiles()[:2]...)},
		ignoreOutput(initial))
	newer := documents{"ClusterConfiguration": {"kubernetesVersion": "v1.37.9"}}
	add("a version newer than the program",
		machine{files: map[string]string{"/base.yaml": newer.mergeInto(baseConfig()).text()}},
		ignoreOutput(initial))
	add("no forwarding", machine{still: true}, ignoreOutput(initial))
	add("no network", machine{offline: true}, ignoreOutput(initial))
	add("proxy in the environment",
		machine{env: []string{"HTTPS_PROXY=http://proxy.example.org:3128"}}, ignoreOutput(initial))
	add("no proxy for own addresses",
		machine{env: []string{"HTTPS_PROXY=http://proxy.example.org:3128", "NO_PROXY=10.0.0.0/8"}},
		ignoreOutput(initial))
	return list
}

// joinFile is a join by a token to an unreachable cluster.
const joinFile = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: "10.0.0.1:6443", unsafeSkipCAVerification: true}}
timeouts: {discovery: 1s}
`

func mergeFiles(under, over map[string]string) map[string]string {
	for name, content := range over {
		under[name] = content
	}
	return under
}
