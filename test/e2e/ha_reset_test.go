//go:build e2e

package e2e

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// TestTwoControlPlanesResetAtOnce resets the leader first, so that etcd elects another while the
// second member is removed.
func TestTwoControlPlanesResetAtOnce(t *testing.T) {
	inFullRun(t, "a minute")
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

// TestResetWhileEtcdLeaderIsFrozen stops the leader's process for longer than the election
// timeout: until the others have elected another leader, no request succeeds.
func TestResetWhileEtcdLeaderIsFrozen(t *testing.T) {
	inFullRun(t, "a minute")
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
	for _, want := range []string{"but this machine does not: it may be a clone", "kubeadm etcd members remove"} {
		if !strings.Contains(result.Stderr, want) {
			t.Errorf("the error does not say %q:\n%s", want, result.Stderr)
		}
	}
	checkVotingMembers(t, s.controlPlanes...)
	if err := s.DestroyNode(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// TestControlPlanesResetOneByOne resets the control planes of a cluster of three. Those that are
// left keep serving the API.
func TestControlPlanesResetOneByOne(t *testing.T) {
	inFullRun(t, "a minute")
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createFirst(t.Context(), 3, 0, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := s.joinNodes(t.Context(), s.controlPlanes[1:]...); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*nodes.Node{s.controlPlanes[2], s.controlPlanes[1]} {
		resetAndDestroy(t, s, kubeadm, n)
		// If the response of the first attempt was lost, the second one changes nothing.
		await(t, "the API without "+n.Name(), waitLimit, func() error {
			_, err := s.cp.Kubectl(t.Context(), "annotate", "--overwrite", "namespace", "default",
				"without="+n.Name())
			return err
		})
	}
	if last := runCommand(t, s.cp, kubeadm, "reset", "--force"); !strings.Contains(last,
		"this is the last voting etcd member") {
		t.Errorf("reset of the last control plane does not say so:\n%s", last)
	}
}

// TestResetWithStoppedEtcd resets a machine whose API server and etcd are down. Its etcd manifest
// names the other members.
func TestResetWithStoppedEtcd(t *testing.T) {
	inFullRun(t, "a minute")
	s := sharedHACluster(t)
	n := s.controlPlanes[2]
	runShell(t, n, "systemctl stop kubelet; kill -9 $(pgrep --exact --oldest etcd)")
	s.balancer.Refuse()
	result, err := n.Run(t.Context(), kubeadm, "reset", "--force")
	if again := s.balancer.Open(); err != nil || again != nil {
		t.Fatal(err, again)
	}
	t.Logf("the reset took %s", result.Duration.Round(time.Millisecond))
	if strings.Contains(result.Stderr, "not removed") {
		t.Errorf("the member was not removed:\n%s", result.Stderr)
	}
	replaceResetNodes(t, s, n)
}

// TestResetWarnsOfQuorumLoss resets the second of three control planes while the third is down.
// reset warns before it asks for confirmation and with --force; etcd refuses the removal, and
// reset prints how to remove the member later.
func TestResetWarnsOfQuorumLoss(t *testing.T) {
	inFullRun(t, "a minute")
	s := sharedHACluster(t)
	n, down := s.controlPlanes[1], s.controlPlanes[2]
	if err := down.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It may have been the leader.
	awaitQuorum(t, s.cp)
	awaitQuorum(t, n)
	warning := "1 of 2 voting etcd members are healthy, and a quorum needs 2: getting the status of etcd member " +
		down.Name()
	checkFails(t, n, []string{warning, "nothing was changed"}, kubeadm, "reset")
	result, err := n.Run(t.Context(), kubeadm, "reset", "--force")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond),
		strings.Join(lastLines(result.Stderr, 8), "\n"))
	remedy := regexp.MustCompile(`etcdctl (member remove [0-9a-f]+)`).FindStringSubmatch(
		result.Stderr)
	if remedy == nil || !strings.Contains(result.Stderr, warning) {
		t.Fatalf("reset does not say what this means and what to do:\n%s", result.Stderr)
	}
	if err := down.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitQuorum(t, s.cp)
	await(t, "etcd to remove the member", waitLimit, func() error {
		_, err := s.cp.Run(t.Context(), etcdctlCommand(strings.Fields(remedy[1])...)...)
		if err != nil && strings.Contains(err.Error(), "member not found") {
			return nil // The response to the first attempt was lost.
		}
		return err
	})
	replaceResetNodes(t, s, n)
}

// resetFromEtcd resets a control plane and checks that its etcd member was removed.
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

// replaceResetNodes checks that the members of the machines that were reset are gone, and joins
// new machines in their place.
func replaceResetNodes(t *testing.T, s *haCluster, gone ...*nodes.Node) {
	t.Helper()
	setControlPlanes(t, s,
		slices.DeleteFunc(slices.Clone(s.controlPlanes),
			func(n *nodes.Node) bool { return slices.Contains(gone, n) })...)
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
		runCommand(t, n, controlPlaneJoinCommand(kubeadm, s)...)
		addControlPlane(t, s, n)
	}
}
