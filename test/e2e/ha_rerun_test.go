//go:build e2e

package e2e

import (
	"slices"
	"testing"
	"time"
)

// TestRerunOfFinishedControlPlaneJoinChangesNothing runs join again with a token that has expired,
// while the API server restarts, on a control plane whose taint was removed.
func TestRerunOfFinishedControlPlaneJoinChangesNothing(t *testing.T) {
	s := sharedHACluster(t)
	n := s.controlPlanes[1]
	token := flagValue(t, s.controlPlaneJoin, "--token")
	command := controlPlaneJoinCommand(kubeadm, s, "-v=1")
	command[slices.Index(command, token)] = "zzzzzz.zzzzzzzzzzzzzzzz"
	const taint = "node-role.kubernetes.io/control-plane:NoSchedule"
	kubectl(t, s.cp, "taint", "node", n.Name(), taint+"-")
	runAfterTest(t, s.cp, "kubectl --kubeconfig /etc/kubernetes/admin.conf taint --overwrite node "+
		n.Name()+" "+taint)
	checkChangesNothing(t, s.cp, n, func() {
		runFinishedCommand(t, n, command...)
		stopAPIServer(t, n)
		runFinishedCommand(t, n, command...)
	})
}

// TestTokenCommandsSurviveLoadBalancerOutage runs them while the load balancer refuses
// connections, and while it cuts them.
func TestTokenCommandsSurviveLoadBalancerOutage(t *testing.T) {
	s := sharedHACluster(t)
	const token = "lbtest.0123456789abcdef"
	t.Cleanup(func() {
		s.balancer.Flap(false)
		if err := s.balancer.Open(); err != nil {
			t.Error(err)
		}
	})
	for _, args := range [][]string{{"create", token}, {"list"},
		{"create", "--ttl=10m", "--print-join-command"}, {"delete", token}} {
		s.balancer.Refuse()
		time.AfterFunc(2*time.Second, func() {
			if err := s.balancer.Open(); err != nil {
				t.Error(err)
			}
		})
		s.balancer.Flap(true)
		if result, err := s.cp.Run(t.Context(),
			append([]string{kubeadm, "token"}, args...)...); err != nil {
			t.Error(err)
		} else if result.Duration < 2*time.Second {
			t.Errorf("token %s took only %s: it did not use the load balancer", args[0],
				result.Duration)
		}
		s.balancer.Flap(false)
	}
}
