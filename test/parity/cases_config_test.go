package parity

import (
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// configCases print, check and migrate configurations.
func configCases() []testCase {
	var list []testCase
	add := func(name string, file string, steps ...step) {
		files := withFiles("/kubeadm.yaml", file)
		files["/discovery.conf"] = discoveryFile
		list = append(list, testCase{name, machine{files: files}, steps})
	}
	for _, line := range []string{
		"init-defaults", "join-defaults", "reset-defaults", "upgrade-defaults", "nonsense-defaults",
		"init-defaults --component-configs=KubeletConfiguration", "init-defaults --component-configs=KubeProxyConfiguration",
		"init-defaults --component-configs=KubeProxyConfiguration,KubeletConfiguration", "init-defaults --component-configs=Nonsense",
	} {
		add("print "+line, "", read("config print "+line, asDocuments))
	}
	add("print", "", do("config print"))
	const validate, migrate = "config validate --config=/kubeadm.yaml", "config migrate --old-config=/kubeadm.yaml"
	good := func(name, file string) {
		add(name, file, read(validate, asLines), read(migrate, asDocuments), do(migrate+" --new-config=/new.yaml"))
	}
	for i, row := range combinations("init.yaml") {
		good(fmt.Sprintf("migrate config %02d", i+1), row.onto(basis()).text())
	}
	for i, row := range combinations("join.yaml") {
		good(fmt.Sprintf("migrate join %02d", i+1), row.onto(joinBasis()).text())
	}
	for i, row := range combinations("other.yaml") {
		good(fmt.Sprintf("migrate other %02d", i+1), row.text())
	}
	for i, row := range bad() {
		add(fmt.Sprintf("bad %02d%s", i+1, summary(row)), row.onto(rightFor(row)).text(), read(validate, asLines))
	}
	for name, file := range files() {
		add("file "+name, file, read(validate, asLines), read(migrate, asDocuments), do("init phase etcd local --config=/kubeadm.yaml"))
	}
	return list
}

// bad are the faults of testdata/bad.yaml.
func bad() []documents {
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

// rightFor is what a fault is laid over.
func rightFor(fault documents) documents {
	for kind := range fault {
		if kind == "InitConfiguration" || kind == "ClusterConfiguration" || strings.HasPrefix(kind, "Kube") {
			return basis()
		}
	}
	return documents{}
}

// summary names what a fault is about: its path down to where it branches.
func summary(d documents) string {
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

// files are those that are odd as files.
func files() map[string]string {
	const head = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: "
	cluster := head + "ClusterConfiguration\nkubernetesVersion: v1.37.1\n"
	initial := "---\n" + head + "InitConfiguration\nbootstrapTokens: [{token: abcdef.0123456789abcdef}]\n"
	return map[string]string{
		"empty": "", "with comments alone": "# nothing\n", "with empty documents": "---\n---\n" + cluster + initial + "---\n", "no YAML": "{\n", "a list": "- a\n", "a text": "hello\n",
		"JSON":                       `{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "v1.37.1"}` + "\n" + initial,
		"without kind":               "apiVersion: kubeadm.k8s.io/v1beta4\n",
		"without version":            "kind: ClusterConfiguration\n",
		"of an unknown kind":         head + "OtherConfiguration\n",
		"of an unknown group":        "apiVersion: example.org/v1\nkind: ClusterConfiguration\n" + initial,
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
		"with all kinds":             cluster + initial + "---\n" + head + "ResetConfiguration\n---\n" + head + "UpgradeConfiguration\n",
		"with windows line ends":     strings.ReplaceAll(cluster+initial, "\n", "\r\n"),
		"with a document end":        cluster + "...\n" + initial,
	}
}

// discoveryFile finds a cluster that nobody answers for.
const discoveryFile = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://10.0.0.1:6443"}}]
contexts: [{name: a, context: {cluster: a}}]
current-context: a
`
