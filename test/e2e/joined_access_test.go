//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestControlPlaneJoinCreatesKubeletAccess joins a control plane to a cluster that lacks the binding of
// the API server's client certificate for kubelets, as one of an older kubeadm does: kubectl logs and
// exec work through its API server.
func TestControlPlaneJoinCreatesKubeletAccess(t *testing.T) {
	inFullRun(t, "a minute")
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	must(t, s.createFirst(t.Context(), 2, 0, nodes.Config{}))
	const binding = "kubeadm:apiserver-kubelet-client"
	kubectl(t, s.cp, "delete", "clusterrolebinding", binding)
	must(t, s.joinNodes(t.Context(), s.controlPlanes[1:]...))
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	if said := s.joinResults[s.controlPlanes[1].Name()].Stdout; !strings.Contains(said, binding) {
		t.Errorf("the join does not name the binding:\n%s", said)
	}
	joined := "--server=https://" + s.controlPlanes[1].Address() + ":6443"
	if log := kubectl(t, s.cp, "-n", "kube-system", "logs", "etcd-cp1", "--tail=1",
		joined); log == "" {
		t.Error("the log is empty")
	}
	kubectl(t, s.cp, "-n", "kube-system", "exec", "etcd-cp1", joined, "--", "/usr/local/bin/etcd",
		"--version")
}
