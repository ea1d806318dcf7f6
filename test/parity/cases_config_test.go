package parity

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
)

// configCases print, validate and migrate configurations.
func configCases() []testCase {
	var list []testCase
	add := func(name string, file string, steps ...step) {
		files := withFiles("/kubeadm.yaml", file)
		files["/discovery.conf"] = discoveryFile
		list = append(list, testCase{name, machine{files: files}, steps})
	}
	for _, line := range []string{
		"init-defaults", "join-defaults", "reset-defaults", "upgrade-defaults", "nonsense-defaults",
		"init-defaults --component-configs=KubeletConfiguration",
		"init-defaults --component-configs=KubeProxyConfiguration",
		"init-defaults --component-configs=KubeProxyConfiguration,KubeletConfiguration",
		"init-defaults --component-configs=Nonsense",
	} {
		add("print "+line, "", compareOutput("config print "+line, asDocuments))
	}
	add("print", "", ignoreOutput("config print"))
	const validate, migrate = "config validate --config=/kubeadm.yaml",
		"config migrate --old-config=/kubeadm.yaml"
	good := func(name, file string) {
		add(name, file, compareOutput(validate, asLines), compareOutput(migrate, asDocuments),
			ignoreOutput(migrate+" --new-config=/new.yaml"))
	}
	for i, row := range readCombinations("init.yaml") {
		good(fmt.Sprintf("migrate config %02d", i+1), row.mergeInto(baseConfig()).text())
	}
	for i, row := range readCombinations("join.yaml") {
		good(fmt.Sprintf("migrate join %02d", i+1), row.mergeInto(baseJoinConfig()).text())
	}
	for i, row := range readCombinations("other.yaml") {
		good(fmt.Sprintf("migrate other %02d", i+1), row.text())
	}
	for i, row := range readBadDocuments() {
		add(fmt.Sprintf("bad %02d%s", i+1, faultPath(row)), row.mergeInto(validBaseFor(row)).text(),
			compareOutput(validate, asLines))
	}
	const cluster = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.37.1\n"
	const skipping = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nskipPhases: [addon/kube-proxy]\n---\n"
	for name, file := range map[string]string{
		"images of a skipped proxy":    skipping + cluster,
		"images of a disabled proxy":   cluster + "proxy: {disabled: true}\n",
		"images of a disabled CoreDNS": cluster + "dns: {disabled: true}\n",
	} {
		add(name, file, compareOutput("config images list --config=/kubeadm.yaml", asLines))
	}
	for name, file := range looseFiles() {
		add("loose "+name, file, ignoreOutput(validate), ignoreOutput(migrate),
			compareOutput("config images list --config=/kubeadm.yaml", asLines),
			ignoreOutput("init phase etcd local --config=/kubeadm.yaml"),
			ignoreOutput("init phase kubeconfig all --config=/kubeadm.yaml --node-name=one"),
			ignoreOutput("init phase control-plane all --config=/kubeadm.yaml"),
			ignoreOutput("certs generate-csr --config=/kubeadm.yaml --kubeconfig-dir=/csr --cert-dir=/csr"))
	}
	for name, file := range oddFiles() {
		add("file "+name, file, compareOutput(validate, asLines),
			compareOutput(migrate, asDocuments),
			ignoreOutput("init phase etcd local --config=/kubeadm.yaml"))
	}
	return list
}

// readBadDocuments reads the faults of testdata/bad.yaml.
func readBadDocuments() []documents {
	data, err := os.ReadFile("testdata/bad.yaml")
	if err != nil {
		panic(err)
	}
	var all []documents
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		panic(err)
	}
	return all
}

// validBaseFor returns the valid documents into which a fault is merged.
func validBaseFor(fault documents) documents {
	for kind := range fault {
		if kind == "InitConfiguration" || kind == "ClusterConfiguration" ||
			strings.HasPrefix(kind, "Kube") {
			return baseConfig()
		}
	}
	return documents{}
}

// faultPath returns the path of a fault's fields down to where it branches.
func faultPath(d documents) string {
	var v any
	for kind, fields := range d {
		v = map[string]any{kind: map[string]any(fields)}
	}
	var path []string
	for {
		m, ok := v.(map[string]any)
		if !ok || len(m) != 1 {
			return " " + strings.Join(path, ".")
		}
		for key, inner := range m {
			path, v = append(path, key), inner
		}
	}
}

// oddFiles are unusual configuration files.
func oddFiles() map[string]string {
	const head = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: "
	cluster := head + "ClusterConfiguration\nkubernetesVersion: v1.37.1\n"
	initial := "---\n" + head +
		"InitConfiguration\nbootstrapTokens: [{token: abcdef.0123456789abcdef}]\n"
	return map[string]string{
		"empty": "", "with comments alone": "# nothing\n",
		"with empty documents": "---\n---\n" + cluster + initial + "---\n", "no YAML": "{\n",
		"a list": "- a\n", "a text": "hello\n",
		"JSON":               `{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.37.1"}` + "\n" + initial,
		"without kind":       "apiVersion: kubeadm.k8s.io/v1beta4\n",
		"without version":    "kind: ClusterConfiguration\n",
		"of an unknown kind": head + "OtherConfiguration\n",
		"of an unknown group": "apiVersion: example.org/v1\nkind: ClusterConfiguration\n" +
			initial,
		"of the core group":          "apiVersion: v1\nkind: ConfigMap\n" + initial,
		"of a kind twice":            cluster + "---\n" + cluster + initial,
		"of kinds in other order":    strings.TrimPrefix(initial, "---\n") + "---\n" + cluster,
		"with a field twice":         cluster + "kubernetesVersion: v1.37.1\n" + initial,
		"of v1beta2":                 strings.ReplaceAll(cluster, "v1beta4", "v1beta2"),
		"of v1beta3":                 strings.ReplaceAll(cluster, "v1beta4", "v1beta3") + initial,
		"of v1alpha1":                strings.ReplaceAll(cluster, "v1beta4", "v1alpha1"),
		"of v1beta9":                 strings.ReplaceAll(cluster, "v1beta4", "v1beta9"),
		"of v1":                      strings.ReplaceAll(cluster+initial, "v1beta4", "v1"),
		"with a kubelet alone":       "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 7\n",
		"with a kubelet of v1alpha1": "apiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\n" + initial,
		"with a cluster alone":       cluster,
		"with an init alone":         strings.TrimPrefix(initial, "---\n"),
		"with all kinds": cluster + initial + "---\n" + head +
			"ResetConfiguration\n---\n" + head + "UpgradeConfiguration\n",
		"with windows line ends": strings.ReplaceAll(cluster+initial, "\n", "\r\n"),
		"with a document end":    cluster + "...\n" + initial,
		"with a mark before each": "\ufeff" +
			cluster + strings.Replace(initial, "---\n", "---\n\ufeff", 1),
		"with a mark in between": cluster + "\ufeff" + initial,
		"with an octal port":     cluster + initial + "localAPIEndpoint: {bindPort: 06443}\n",
		"with text for a list":   cluster + "apiServer: {certSANs: a.example}\n" + initial,
		"with no for a name":     cluster + "clusterName: no\n" + initial,
		"with quotes for a port": cluster + initial + "localAPIEndpoint: {bindPort: '6443'}\n",
		"with days":              cluster + "certificateValidityPeriod: 365d\n" + initial,
		"with a directive":       "%YAML 1.1\n---\n" + cluster + initial,
		"with an indented head": "  " +
			strings.Replace(cluster, "\nkind", "\n  kind", 1) + initial,
		"with JSON twice":            `{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.37.1"}` + "\n" + `{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration"}` + "\n",
		"of UTF-16":                  encodeUTF16(cluster + initial),
		"of UTF-16 and one document": encodeUTF16(cluster),
	}
}

// looseFiles have unknown or duplicate fields, as the files of some well-known tools do. Both
// programs accept them with a warning, except for validate and migrate.
func looseFiles() map[string]string {
	const head = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: "
	cluster := head + "ClusterConfiguration\nkubernetesVersion: v1.37.1\n"
	initial := "---\n" + head +
		"InitConfiguration\nbootstrapTokens: [{token: abcdef.0123456789abcdef}]\n"
	proxy := "---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	kubelet := "---\napiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	return map[string]string{
		"of kinder with IPv6": cluster +
			"scheduler:\n  extraArgs:\n  - name: bind-address\n    vaue: \"::1\"\n" + initial,
		"of kubeadm-ha": cluster + initial + proxy +
			"mode: ipvs\nudpIdleTimeout: 250ms\n",
		"of the documentation": cluster + initial +
			"timeouts: {controlPlaneComponentHealthCheck: 60s, kubenetesAPICall: 40s}\n",
		"of v1beta3 in name only": cluster +
			"apiServer: {timeoutForControlPlane: 4m}\ndns: {type: CoreDNS}\nuseHyperKubeImage: true\n" + initial,
		"of the kubelet": cluster + initial + kubelet +
			"maxPod: 7\nauthentication: {anonymus: {enabled: true}}\n",
		"in another case": cluster +
			"ImageRepository: a.example/x\nnetworking: {DNSDomain: a.example}\n" + initial,
		"in another document": cluster + "certificateKey: 00\n" + initial +
			"networking: {podSubnet: 10.0.0.0/16}\n",
		"with a field twice": cluster +
			"imageRepository: a.example/x\nimageRepository: b.example/y\n" + initial,
		"with a nested field twice": cluster +
			"etcd:\n  local:\n    imageTag: v1\n    imageTag: v2\n" + initial,
		"with a mapping twice": cluster +
			"dns: {imageTag: v1}\ndns: {imageRepository: b.example/y}\n" + initial,
		"with a mapping twice, JSON": `{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.37.1", "dns": {"imageTag": "v1"}, "dns": {"imageRepository": "b.example/y"}}` + "\n" + initial,
		"with a list twice": cluster +
			"apiServer: {certSANs: [a.example]}\napiServer: {certSANs: [b.example]}\n" + initial,
		"with an unknown mapping": cluster +
			"unknown: {a: {b: [1, {c: d}]}}\nscheduler: {unknown: {a: b}}\n" + initial,
		"of another group": cluster + initial +
			"---\napiVersion: example.org/v1\nkind: Thing\nunknown: 1\n",
	}
}

// discoveryFile names an unreachable cluster.
const discoveryFile = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://10.0.0.1:6443"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
`

// encodeUTF16 encodes a text in UTF-16 with a byte order mark, as Windows editors do.
func encodeUTF16(text string) string {
	data := []byte("\xff\xfe")
	for _, unit := range utf16.Encode([]rune(text)) {
		data = binary.LittleEndian.AppendUint16(data, unit)
	}
	return string(data)
}
