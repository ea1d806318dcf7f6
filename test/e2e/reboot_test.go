//go:build e2e

package e2e

import (
	"testing"

	"kubeadm/test/nodes"
)

// TestClusterSurvivesReboot powers the worker off and reboots the control plane.
func TestClusterSurvivesReboot(t *testing.T) {
	parallel(t)
	inFullRun(t, "a minute")
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
		// A kubelet that starts before the container runtime exits; systemd restarts it after ten
		// seconds.
		await(t, "the kubelet of "+n.Name(), waitLimit, func() error {
			_, err := n.Run(t.Context(), "systemctl", "is-active", "kubelet")
			return err
		})
	}
	await(t, "kube-proxy on the worker", waitLimit, func() error {
		_, err := s.cp.Kubectl(t.Context(), "--namespace=kube-system", "rollout", "status",
			"--timeout=5s", "daemonset/kube-proxy")
		return err
	})
	if err := awaitClusterReady(t.Context(), s.cp, 2); err != nil {
		t.Error(err)
	}
}
