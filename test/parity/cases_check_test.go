package parity

import (
	"fmt"
	"slices"
	"strings"
)

// newHealthyMachine is a machine that passes all preflight checks that it can pass.
func newHealthyMachine() machine {
	return machine{runtime: true, tools: slices.Clone(allTools),
		files: map[string]string{"/kubeadm.yaml": baseConfig().text()}}
}

// variation is one change of the machine or the configuration.
type variation struct {
	name   string
	alter  func(*machine)
	config documents // merged into the usual ones
}

// checkCases run the preflight checks with one variation each, and ways to ignore checks.
func checkCases() []testCase {
	var list []testCase
	for _, d := range slices.Concat(kubeletVariations(), proxyVariations(), configVariations()) {
		m := d.applyTo(newHealthyMachine())
		list = append(list, testCase{"checks of init: " + d.name, m,
			[]step{ignoreOutput("init phase preflight --config=/kubeadm.yaml")}})
	}
	for _, d := range slices.Concat(kubeletVariations(), proxyVariations(), leftoverVariations()) {
		list = append(list, testCase{"checks of join: " + d.name, d.applyTo(newHealthyMachine()),
			joinSteps()})
	}
	return append(list, ignoredCheckCases()...)
}

// applyTo returns the machine with the variation.
func (d variation) applyTo(m machine) machine {
	if d.config != nil {
		m.files["/kubeadm.yaml"] = d.config.mergeInto(baseConfig()).text()
	}
	if d.alter != nil {
		d.alter(&m)
	}
	return m
}

// joinSteps are joins of a worker and a control plane, by unreachable addresses of both IP
// families.
func joinSteps() []step {
	const token = " --token=abcdef.abcdef0123456789 --discovery-token-unsafe-skip-ca-verification --dry-run"
	return []step{
		ignoreOutput("join phase preflight 127.0.0.1:1" + token),
		ignoreOutput("join phase preflight --control-plane 127.0.0.1:1" + token),
		ignoreOutput("join phase preflight [fd00:10::10]:1" + token),
	}
}

func kubeletVariations() []variation {
	list := []variation{{name: "all in order"}}
	for _, v := range []string{"v1.33.9", "v1.34.0", "v1.34.0-rc.0", "v1.36.4", "v1.37.9",
		"v1.38.0", "unknown"} {
		list = append(list, variation{name: "kubelet " + v,
			alter: func(m *machine) { m.env = append(m.env, kubeletVersion+"="+v) }})
	}
	return list
}

func leftoverVariations() []variation {
	list := []variation{{name: "no runtime", alter: func(m *machine) { m.runtime = false }}}
	for _, file := range []string{"kubelet.conf", "bootstrap-kubelet.conf", "pki/ca.crt",
		"manifests/etcd.yaml"} {
		list = append(list, variation{name: "left " + file,
			alter: func(m *machine) { m.files["/etc/kubernetes/"+file] = "left over\n" }})
	}
	return list
}

func proxyVariations() []variation {
	var list []variation
	for name, env := range map[string]string{
		"for all":             "HTTPS_PROXY=http://192.0.2.1:3128",
		"in lower case":       "https_proxy=http://192.0.2.1:3128",
		"for plain requests":  "HTTP_PROXY=http://192.0.2.1:3128",
		"not for Services":    "HTTPS_PROXY=http://192.0.2.1:3128 NO_PROXY=10.96.0.0/12",
		"not for the machine": "HTTPS_PROXY=http://192.0.2.1:3128 NO_PROXY=10.0.0.10,127.0.0.0/8",
		"not for IPv6":        "HTTPS_PROXY=http://192.0.2.1:3128 no_proxy=fd00::/8",
		"for no address":      "HTTPS_PROXY=http://192.0.2.1:3128 NO_PROXY=*",
		"malformed":           "HTTPS_PROXY=:://",
	} {
		list = append(list, variation{name: "a proxy " + name,
			alter: func(m *machine) { m.env = append(m.env, strings.Fields(env)...) }})
	}
	return list
}

func configVariations() []variation {
	cluster := func(content map[string]any) documents { return documents{"ClusterConfiguration": content} }
	network := func(pods, services string) documents {
		return cluster(map[string]any{"networking": map[string]any{"podSubnet": pods,
			"serviceSubnet": services}})
	}
	external := func(endpoint, dir string) documents {
		e := map[string]any{"endpoints": []any{endpoint}}
		if dir != "" {
			e["caFile"], e["certFile"], e["keyFile"] = dir+"/ca.crt", dir+"/client.crt",
				dir+"/client.key"
		}
		return cluster(map[string]any{"etcd": map[string]any{"external": e}})
	}
	bind := func(component, name, value string) documents {
		return cluster(map[string]any{component: map[string]any{"extraArgs": []any{map[string]any{"name": name, "value": value}}}})
	}
	start := func(content map[string]any) documents { return documents{"InitConfiguration": content} }
	return []variation{
		{name: "dual-stack",
			config: network("10.244.0.0/16,fd00:244::/56", "10.96.0.0/12,fd00:96::/112")},
		{name: "external etcd", config: external("https://127.0.0.1:1", "/nowhere")},
		{name: "external etcd without TLS", config: external("http://127.0.0.1:1", "")},
		{name: "data directory of etcd",
			config: cluster(map[string]any{"etcd": map[string]any{"local": map[string]any{"dataDir": "/usr"}}})},
		{name: "API server bound to another address",
			config: bind("apiServer", "bind-address", "10.9.9.9")},
		{name: "API server with another advertise address",
			config: bind("apiServer", "advertise-address", "10.9.9.9")},
		{name: "scheduler bound to another address",
			config: bind("scheduler", "bind-address", "10.9.9.9")},
		{name: "controllers bound to another address",
			config: bind("controllerManager", "bind-address", "10.9.9.9")},
		{name: "another address",
			config: start(map[string]any{"localAPIEndpoint": map[string]any{"advertiseAddress": "10.9.9.9", "bindPort": 7443}})},
		{name: "IPv6 only", config: documents{
			"InitConfiguration":    {"localAPIEndpoint": map[string]any{"advertiseAddress": "fd00:10::10"}},
			"ClusterConfiguration": {"networking": map[string]any{"serviceSubnet": "fd00:96::/112"}},
		}},
		{name: "the previous release",
			config: cluster(map[string]any{"kubernetesVersion": "v1.36.3"})},
		{name: "images in parallel",
			config: start(map[string]any{"nodeRegistration": map[string]any{"imagePullSerial": false}})},
		{name: "no image at all",
			config: start(map[string]any{"nodeRegistration": map[string]any{"imagePullPolicy": "Never"}})},
		{name: "every image pulled again",
			config: start(map[string]any{"nodeRegistration": map[string]any{"imagePullPolicy": "Always"}})},
		{name: "a name that does not resolve",
			config: start(map[string]any{"nodeRegistration": map[string]any{"name": "unknown.example"}})},
	}
}

// ignoredCheckCases are ways to ignore checks, on a machine that fails some.
func ignoredCheckCases() []testCase {
	m := newHealthyMachine()
	m.runtime = false
	m.files["/etc/kubernetes/manifests/etcd.yaml"] = "left over\n"
	m.files["/both.yaml"] = documents{
		"InitConfiguration": {"nodeRegistration": map[string]any{"ignorePreflightErrors": []any{"CRI", "NoSuchCheck"}}},
	}.mergeInto(baseConfig()).text()
	m.files["/all.yaml"] = documents{"InitConfiguration": {"nodeRegistration": map[string]any{"ignorePreflightErrors": []any{"all"}}}}.mergeInto(baseConfig()).text()
	var list []testCase
	for i, line := range []string{
		"--config=/kubeadm.yaml --ignore-preflight-errors=cri,CONTAINERRUNTIMEVERSION,SystemVerification",
		"--config=/kubeadm.yaml --ignore-preflight-errors=FileAvailable",
		"--config=/kubeadm.yaml --ignore-preflight-errors=fileavailable--etc-kubernetes-manifests-etcd.yaml",
		"--config=/kubeadm.yaml --ignore-preflight-errors=all,CRI",
		"--config=/kubeadm.yaml --ignore-preflight-errors=all --ignore-preflight-errors=All",
		"--config=/both.yaml --ignore-preflight-errors=ContainerRuntimeVersion",
		"--config=/both.yaml --ignore-preflight-errors=all",
		"--config=/all.yaml --ignore-preflight-errors=CRI",
		"--config=/all.yaml --ignore-preflight-errors=all",
		"--config=/all.yaml",
	} {
		list = append(list, testCase{fmt.Sprintf("checks ignored %02d", i+1), m,
			[]step{ignoreOutput("init phase preflight --dry-run " + line)}})
	}
	return list
}
