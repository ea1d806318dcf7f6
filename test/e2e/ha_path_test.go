//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// TestS194_TheLoadBalancerIsLateAndFlaps keeps a worker and a control plane waiting when they begin to join, and then cuts
// connections at random until they have joined.
func TestS194_TheLoadBalancerIsLateAndFlaps(t *testing.T) {
	s := high(t)
	late := 10 * time.Second
	if lab.full {
		late = time.Minute
	}
	added, err := s.AddAll(t.Context(), "late-plane", "late-worker")
	if err != nil {
		t.Fatal(err)
	}
	plane, worker := added[0], added[1]
	s.balancer.Hold(late)
	flap := time.AfterFunc(late, func() { s.balancer.Flap(true) })
	results, err := atOnce(t.Context(), map[*nodes.Node][]string{plane: s.invitation, worker: s.command})
	early := flap.Stop()
	s.balancer.Flap(false)
	if err != nil {
		t.Fatal(err)
	}
	if early {
		t.Error("both had joined before the load balancer served anybody")
	}
	for n, result := range results {
		t.Logf("%s joined in %s", n.Name(), result.Duration.Round(100*time.Millisecond))
	}
	awaitMember(t, &s.site, worker)
	admit(t, s, plane)
	dismiss(t, s, ours, plane)
	bury(t, s, worker)
}

// TestS197_TheKeyHasExpired deletes what the certificate key opens, as the cluster itself does after two hours.
func TestS197_TheKeyHasExpired(t *testing.T) {
	s := high(t)
	const remedy = "kubeadm token create --print-join-command --upload-certs"
	n := add(t, s.Cluster, "too-late")
	t.Run("another key", func(t *testing.T) {
		wrong := append(without(planeCommand(ours, s), "--certificate-key"), "--certificate-key="+strings.Repeat("a", 64))
		result := refused(t, n, []string{"key", remedy}, wrong...)
		t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 4), "\n"))
	})
	kubectl(t, s.cp, "--namespace=kube-system", "delete", "secret", "kubeadm-certs")
	result := refused(t, n, []string{remedy}, planeCommand(ours, s)...)
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 4), "\n"))
	s.invitation = strings.Fields(run(t, s.cp, strings.Fields(remedy)...))
	lent(t, s.cp, flagOf(t, s.invitation, "--certificate-key"))
	if left := filesOf(t, n); len(left) > 0 {
		t.Errorf("the refused joins left files:%s", lines("%s", left.names()))
	}
	bury(t, s, n)
}
