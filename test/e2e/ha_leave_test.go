//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// TestTwoControlPlanesResetAtOnce resets the leader first, so that etcd elects
// another while the second asks to be removed.
func TestTwoControlPlanesResetAtOnce(t *testing.T) {
	s := sharedHACluster(t)
	leaving := slices.Clone(s.controlPlanes[1:])
	moveLeader(t, s, leaving[0])
	var all sync.WaitGroup
	for i, n := range leaving {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 200 * time.Millisecond)
			resetFromEtcd(t, n)
		})
	}
	all.Wait()
	replaceResetNodes(t, s, leaving...)
}

// TestResetWhileEtcdLeaderIsFrozen stops the leader's process for longer than the others
// wait for it: until they have elected another, no question has an answer.
func TestResetWhileEtcdLeaderIsFrozen(t *testing.T) {
	if !suite.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := sharedHACluster(t)
	frozen, n := s.controlPlanes[1], s.controlPlanes[2]
	moveLeader(t, s, frozen)
	var thaw sync.WaitGroup
	thaw.Go(func() {
		runShell(t, frozen, "pid=$(pgrep --exact --oldest etcd); kill -STOP $pid; sleep 6; kill -CONT $pid")
	})
	resetFromEtcd(t, n)
	thaw.Wait()
	replaceResetNodes(t, s, n)
}

// TestResetOfCopyKeepsOriginalMember copies a control plane's files to another machine.
func TestResetOfCopyKeepsOriginalMember(t *testing.T) {
	s := sharedHACluster(t)
	original := s.controlPlanes[2]
	n := addNode(t, s.Cluster, "copy")
	for _, name := range strings.Fields(runShell(t, original, "find /etc/kubernetes -type f")) {
		data, err := original.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		runShell(t, n, "mkdir -p $(dirname "+name+")")
		if err := n.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	result, err := n.Run(t.Context(), kubeadm, "reset", "--force")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"this machine has no such address", "etcdctl member remove"} {
		if !strings.Contains(result.Stderr, want) {
			t.Errorf("the user does not read %q:\n%s", want, result.Stderr)
		}
	}
	checkVotingMembers(t, s.controlPlanes...)
	if err := s.Scrap(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func resetFromEtcd(t *testing.T, n *nodes.Node) {
	t.Helper()
	result, err := n.Run(t.Context(), kubeadm, "reset", "--force")
	if err != nil {
		t.Error(err)
	}
	t.Logf("the reset of %s took %s", n.Name(), result.Duration.Round(time.Millisecond))
	if strings.Contains(result.Stderr, "not removed") {
		t.Errorf("the member of %s was not removed:\n%s%s", n.Name(), result.Stdout, result.Stderr)
	}
}

// replaceResetNodes checks that etcd has no member of the machines that were reset any more, and puts new
// ones in their place.
func replaceResetNodes(t *testing.T, s *haCluster, gone ...*nodes.Node) {
	t.Helper()
	setControlPlanes(t, s, slices.DeleteFunc(slices.Clone(s.controlPlanes), func(n *nodes.Node) bool { return slices.Contains(gone, n) })...)
	checkVotingMembers(t, s.controlPlanes...)
	for _, other := range s.controlPlanes {
		awaitAPI(t, other, "")
	}
	for _, n := range gone {
		destroyNode(t, s, n)
		n, err := s.AddAt(t.Context(), n.Name(), n.Address())
		if err != nil {
			t.Fatal(err)
		}
		run(t, n, controlPlaneJoinCommand(kubeadm, s)...)
		addControlPlane(t, s, n)
	}
}
