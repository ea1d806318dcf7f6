package parity

import (
	"slices"
	"strings"
)

// allTools are the programs that preflight looks for.
var allTools = strings.Fields("kubelet mount cp losetup iptables ip ethtool tc ebtables nsenter socat touch crictl conntrack")

// without is all programs but one.
func without(name string) []string {
	return slices.DeleteFunc(slices.Clone(allTools), func(s string) bool { return s == name })
}

// preflightCases are machines that are not all right, each in one way.
func preflightCases() []testCase {
	var list []testCase
	add := func(name string, m machine, steps ...step) {
		m.files, m.runtime = overlayFiles(withFiles("/base.yaml", basis().text()), m.files), true
		if m.tools == nil {
			m.tools = allTools
		}
		list = append(list, testCase{"preflight: " + name, m, steps})
	}
	const initial, joining = "init phase preflight --config=/base.yaml", "join phase preflight --config=/join.yaml"
	add("in order", machine{}, do(initial))
	add("all ignored", machine{}, do(initial+" --ignore-preflight-errors=all"))
	add("some ignored", machine{}, do(initial+" --ignore-preflight-errors=NumCPU,mem,SystemVerification,Swap"))
	add("all and others ignored", machine{}, do(initial+" --ignore-preflight-errors=all,Swap"))
	for _, tool := range allTools {
		add("no "+tool, machine{tools: without(tool)}, do(initial))
	}
	for _, port := range strings.Fields("6443 10259 10257 10250 2379 2380 2381") {
		add("port "+port+" taken", machine{ports: []string{"0.0.0.0:" + port}}, do(initial))
		add("port "+port+" taken on the loopback", machine{ports: []string{"127.0.0.1:" + port}}, do(initial))
	}
	for _, file := range strings.Fields("kube-apiserver kube-controller-manager kube-scheduler etcd") {
		add("a manifest of "+file, machine{files: map[string]string{"/etc/kubernetes/manifests/" + file + ".yaml": "kind: Pod\n"}}, do(initial))
	}
	for _, file := range strings.Fields("/var/lib/etcd/member/snap /etc/kubernetes/kubelet.conf /etc/kubernetes/admin.conf /etc/kubernetes/bootstrap-kubelet.conf /etc/kubernetes/pki/ca.crt /var/lib/kubelet/config.yaml /etc/kubernetes/manifests/other.yaml") {
		m := machine{files: map[string]string{file: "something\n", "/join.yaml": joinFile}}
		add("there is "+file[strings.LastIndex(file, "/")+1:], m, do(initial))
		add("there is "+file[strings.LastIndex(file, "/")+1:]+" at a join", m, do(joining))
	}
	external := documents{"ClusterConfiguration": {"etcd": map[string]any{"external": map[string]any{"endpoints": []any{"http://10.0.0.1:2379"}}}}}
	add("no such external etcd", machine{files: map[string]string{"/base.yaml": external.onto(basis()).text()}}, do(initial))
	add("external CA incomplete", machine{stage: "pki", lacks: append([]string{"/etc/kubernetes/pki/ca.key"}, leaves()[:2]...)}, do(initial))
	newer := documents{"ClusterConfiguration": {"kubernetesVersion": "v1.37.9"}}
	add("a version newer than the program", machine{files: map[string]string{"/base.yaml": newer.onto(basis()).text()}}, do(initial))
	add("no forwarding", machine{still: true}, do(initial))
	add("no network", machine{offline: true}, do(initial))
	add("proxy in the environment", machine{env: []string{"HTTPS_PROXY=http://proxy.example.org:3128"}}, do(initial))
	add("no proxy for own addresses", machine{env: []string{"HTTPS_PROXY=http://proxy.example.org:3128", "NO_PROXY=10.0.0.0/8"}}, do(initial))
	return list
}

// joinFile is a join by a token to a cluster that nobody answers for.
const joinFile = `apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: "10.0.0.1:6443", unsafeSkipCAVerification: true}}
timeouts: {discovery: 1s}
`

func overlayFiles(under, over map[string]string) map[string]string {
	for name, content := range over {
		under[name] = content
	}
	return under
}
