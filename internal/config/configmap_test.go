package config

import (
	"runtime"
	"strings"
	"testing"

	"kubeadm/internal/problem"
)

// The hint for a whole ConfigMap is a command that extracts the document.
func TestWholeConfigMapIsExplained(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: any, namespace: kube-system}\n"
	for text, want := range map[string]string{
		head + "data:\n  ClusterConfiguration: |\n    kind: ClusterConfiguration\n": "kubectl -n kube-system get configmap kubeadm-config -o 'jsonpath={.data.ClusterConfiguration}' >config.yaml",
		head + "data:\n  kubelet: |\n    kind: KubeletConfiguration\n":              "get configmap kubelet-config -o 'jsonpath={.data.kubelet}'",
		head + "data:\n  config.conf: |\n    kind: KubeProxyConfiguration\n":        `get configmap kube-proxy -o 'jsonpath={.data.config\.conf}'`,
		head + "data: {other: x}\n":                          "",
		"apiVersion: v1\nkind: Secret\ndata: {kubelet: x}\n": "",
	} {
		_, _, err := Init(File{Name: "cm.yaml", Data: []byte(text)}, NewInitFlags(), Facts{})
		hints := strings.Join(problem.Hints(err), "\n")
		if err == nil || !strings.Contains(err.Error(), `apiVersion is "v1"`) ||
			!strings.Contains(hints, want) || want == "" && strings.Contains(hints, "ConfigMap") {
			t.Errorf("%s: %v, %q", text, err, hints)
		}
	}
}

// The refusal of a file with too many aliases does not expand them to look for a ConfigMap.
func TestRefusedAliasesAreNotExpanded(t *testing.T) {
	data := []byte("s: &s " + strings.Repeat("x", 50_000) + "\nl: [" + strings.Repeat("*s, ", 20_000) + "]\n")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := Init(File{Name: "c.yaml", Data: data}, NewInitFlags(), Facts{})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "excessive aliasing") {
		t.Errorf("got %v", err)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 100<<20 {
		t.Errorf("it allocated %d MB", allocated>>20)
	}
}
