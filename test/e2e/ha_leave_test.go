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

// TestTwoControlPlanesResetAtTheSameTimeBothLeaveEtcd resets the leader first, so that etcd elects
// another while the second asks to be removed.
func TestTwoControlPlanesResetAtTheSameTimeBothLeaveEtcd(t *testing.T) {
	s := high(t)
	leaving := slices.Clone(s.planes[1:])
	lead(t, s, leaving[0])
	var all sync.WaitGroup
	for i, n := range leaving {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 200 * time.Millisecond)
			leaveEtcd(t, n)
		})
	}
	all.Wait()
	replant(t, s, leaving...)
}

// TestAResetLeavesEtcdThoughTheLeaderFreezes stops the leader's process for longer than the others
// wait for it: until they have elected another, no question has an answer.
func TestAResetLeavesEtcdThoughTheLeaderFreezes(t *testing.T) {
	if !lab.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := high(t)
	frozen, n := s.planes[1], s.planes[2]
	lead(t, s, frozen)
	var thaw sync.WaitGroup
	thaw.Go(func() {
		shell(t, frozen, "pid=$(pgrep --exact --oldest etcd); kill -STOP $pid; sleep 6; kill -CONT $pid")
	})
	leaveEtcd(t, n)
	thaw.Wait()
	replant(t, s, n)
}

// TestAResetOfACopyLeavesTheOriginalsEtcdMemberAlone copies a control plane's files to another machine.
func TestAResetOfACopyLeavesTheOriginalsEtcdMemberAlone(t *testing.T) {
	s := high(t)
	original := s.planes[2]
	n := add(t, s.Cluster, "copy")
	for _, name := range strings.Fields(shell(t, original, "find /etc/kubernetes -type f")) {
		data, err := original.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		shell(t, n, "mkdir -p $(dirname "+name+")")
		if err := n.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	result, err := n.Run(t.Context(), ours, "reset", "--force")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"this machine has no such address", "etcdctl member remove"} {
		if !strings.Contains(result.Stderr, want) {
			t.Errorf("the user does not read %q:\n%s", want, result.Stderr)
		}
	}
	vote(t, s.planes...)
	if err := s.Scrap(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func leaveEtcd(t *testing.T, n *nodes.Node) {
	t.Helper()
	result, err := n.Run(t.Context(), ours, "reset", "--force")
	if err != nil {
		t.Error(err)
	}
	t.Logf("the reset of %s took %s", n.Name(), result.Duration.Round(time.Millisecond))
	if strings.Contains(result.Stderr, "not removed") {
		t.Errorf("the member of %s was not removed:\n%s%s", n.Name(), result.Stdout, result.Stderr)
	}
}

// replant checks that etcd has no member of the machines that were reset any more, and puts new
// ones in their place.
func replant(t *testing.T, s *trio, gone ...*nodes.Node) {
	t.Helper()
	seat(t, s, slices.DeleteFunc(slices.Clone(s.planes), func(n *nodes.Node) bool { return slices.Contains(gone, n) })...)
	vote(t, s.planes...)
	for _, other := range s.planes {
		awaitAPI(t, other, "")
	}
	for _, n := range gone {
		bury(t, s, n)
		n, err := s.AddAt(t.Context(), n.Name(), n.Address())
		if err != nil {
			t.Fatal(err)
		}
		run(t, n, planeCommand(ours, s)...)
		admit(t, s, n)
	}
}
