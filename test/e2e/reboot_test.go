//go:build e2e

package e2e

import (
	"testing"

	"kubeadm/test/nodes"
)

// TestClusterSurvivesReboot cuts the worker's power and shuts the control plane down in an orderly way.
func TestClusterSurvivesReboot(t *testing.T) {
	t.Parallel()
	if !suite.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := &testCluster{Cluster: newCluster(t)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.initAndJoin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.worker.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.cp.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.worker.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*nodes.Node{s.cp, s.worker} {
		// One that finds no container runtime yet ends, and systemd starts it again ten seconds later.
		await(t, "the kubelet of "+n.Name(), waitLimit, func() error {
			_, err := n.Run(t.Context(), "systemctl", "is-active", "kubelet")
			return err
		})
	}
	await(t, "Pods on the worker that are newer than its boot", waitLimit, func() error {
		_, err := s.cp.Kubectl(t.Context(), "--namespace=kube-system", "rollout", "status", "--timeout=5s", "daemonset/kube-proxy")
		return err
	})
	if err := awaitClusterReady(t.Context(), s.cp, 2); err != nil {
		t.Error(err)
	}
}
