//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// TestChangeAddressDuringUpgrade kills an upgrade on one of two control plane nodes. "upgrade node" does not undo
// it there. Until it is complete on both, the other one gets no other address, and nothing changes.
func TestChangeAddressDuringUpgrade(t *testing.T) {
	inFullRun(t, "three minutes")
	parallel(t)
	s := newOlderHAClusterOf(t, kubeadm, 2, 0)
	moved, first := s.controlPlanes[1], s.controlPlanes[1].Address()
	second, err := moved.AddAddress(t.Context())
	must(t, err)
	// The API server of the new version answers before this change.
	result, killed := runInterrupted(t, s.cp, unix.SIGKILL, func(line string) bool {
		change, _ := doneChange(line)
		return strings.Contains(change, "manifests/kube-scheduler.yaml")
	}, upgradeCommand(upgradeTarget)...)
	if !killed {
		t.Fatalf("the upgrade was not killed:\n%s%s", result.Stdout, result.Stderr)
	}
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	checkMoveRefused(t, s, moved, second, s.cp.Name()+" runs "+upgradeTarget, "the cluster stores "+olderVersion(t),
		"on that node: kubeadm upgrade apply "+upgradeTarget)
	checkFails(t, s.cp, []string{"runs " + upgradeTarget, "the cluster stores Kubernetes " + olderVersion(t),
		"on this node: kubeadm upgrade apply " + upgradeTarget}, upgradeNodeCommand()...)
	runCommand(t, s.cp, upgradeCommand(upgradeTarget)...)
	checkMoveRefused(t, s, moved, second, moved.Name()+" runs "+olderVersion(t), "the cluster stores "+upgradeTarget,
		"on that node: kubeadm upgrade node")
	runCommand(t, moved, upgradeNodeCommand()...)

	runAddress(t, moved, "change", second)
	must(t, moved.MoveTo(t.Context(), second))
	runCommand(t, moved, "ss", "--kill", "--tcp", "src", first) // or etcd uses them until it notices
	must(t, s.balancer.SetBackends(s.controlPlanes...))
	checkMovedPlane(t, moved, first)
	checkVotingMembers(t, s.controlPlanes...)
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	for _, n := range s.controlPlanes {
		checkRunningVersion(t, n, upgradeTarget)
	}
}

// checkMoveRefused checks that a control plane node gets no other address during an upgrade, and that its files, its Node, the
// objects of the cluster and the members of etcd stay as they are.
func checkMoveRefused(t *testing.T, s *haCluster, n *nodes.Node, address string, words ...string) {
	t.Helper()
	describe := func() []string {
		annotations := kubectl(t, s.cp, "get", "node", n.Name(), "--output=jsonpath={.metadata.annotations}")
		return slices.Concat(listFiles(t, n).list(), []string{annotations}, describeMembers(t, s.cp))
	}
	before := describe()
	checkChangesNothing(t, s.cp, n, func() {
		words = append(words, "an upgrade is in progress", "complete the upgrade first")
		refused := checkFails(t, n, words, addressCommand("change", address)...)
		t.Logf("refused in %s:\n%s", refused.Duration, refused.Stderr)
	})
	if after := describe(); !slices.Equal(before, after) {
		t.Errorf("before:%s\nafter:%s", indentLines(before), indentLines(after))
	}
	checkNodeAddress(t, s.cp, n.Name(), n.Address())
}
