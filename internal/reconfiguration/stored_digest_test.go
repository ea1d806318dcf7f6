package reconfiguration

import (
	"testing"

	"kubeadm/internal/config"
)

// What identifies a configuration depends on its meaning, and not on how its text is written.
func TestBaseOf(t *testing.T) {
	const cluster, kubelet = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.37.1\n",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	base := func(cluster, kubelet string) string {
		t.Helper()
		got, err := BaseOf(config.NewLocal(), config.StoredConfig{Cluster: cluster, Kubelet: config.StoredComponent{Text: kubelet}})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	present := base(cluster, kubelet+"maxPods: 99\n")
	for name, text := range map[string][2]string{
		"another order":   {"kubernetesVersion: v1.37.1\nkind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\n", "maxPods: 99\n" + kubelet},
		"a comment":       {"# a comment\n" + cluster, kubelet + "maxPods: 99 # a comment\n"},
		"a default":       {cluster + "certificatesDir: /etc/kubernetes/pki\n", kubelet + "maxPods: 99\nreadOnlyPort: 0\n"},
		"an empty object": {cluster + "scheduler: {}\n", kubelet + "maxPods: 99\n"},
	} {
		if got := base(text[0], text[1]); got != present {
			t.Errorf("%s: %s, not %s", name, got, present)
		}
	}
	for name, text := range map[string][2]string{
		"another value": {cluster, kubelet + "maxPods: 98\n"},
		"another field": {cluster + "clusterName: other\n", kubelet + "maxPods: 99\n"},
	} {
		if base(text[0], text[1]) == present {
			t.Errorf("%s is not noticed", name)
		}
	}
}
