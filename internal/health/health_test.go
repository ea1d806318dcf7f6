package health

import (
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/world/fake"
)

func TestKubeletHealthAddress(t *testing.T) {
	n := &node.Node{Local: node.Local{Paths: node.DefaultPaths()}}
	n.Cluster.Kubelet.Config = &kubeletconfig.KubeletConfiguration{HealthzPort: new(int32(1))}
	m := fake.New()
	if got := Kubelet(t.Context(), m, n).Name; got != "the kubelet at http://127.0.0.1:1/healthz" {
		t.Errorf("without a file: %s", got)
	}
	patched := change.WriteFile{Path: n.Paths.KubeletConfig(),
		Data: []byte("healthzPort: 2\nhealthzBindAddress: \"::1\"\n")}
	if err := m.Do(t.Context(), patched); err != nil {
		t.Fatal(err)
	}
	if got := Kubelet(t.Context(), m, n).Name; got != "the kubelet at http://[::1]:2/healthz" {
		t.Errorf("with a patched file: %s", got)
	}
}
