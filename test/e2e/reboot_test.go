//go:build e2e

package e2e

import (
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// TestS073_TheClusterOutlivesAReboot cuts the worker's power and shuts the control plane down in an orderly way.
func TestS073_TheClusterOutlivesAReboot(t *testing.T) {
	if !lab.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := &site{Cluster: newCluster(t)}
	if err := s.add(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.form(t.Context()); err != nil {
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
		if state := run(t, n, "systemctl", "is-active", "kubelet"); state != "active" {
			t.Errorf("the kubelet of %s is %s", n.Name(), state)
		}
	}
	await(t, "Pods on the worker that are newer than its boot", 2*time.Minute, func() error {
		_, err := s.cp.Kubectl(t.Context(), "--namespace=kube-system", "rollout", "status", "--timeout=5s", "daemonset/kube-proxy")
		return err
	})
	if err := settle(t.Context(), s.cp, 2); err != nil {
		t.Error(err)
	}
}
