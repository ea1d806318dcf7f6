//go:build e2e

package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// TestS144_ControlPlanesLeaveOneAfterTheOther takes a cluster of three apart. Each of those that are left goes on.
func TestS144_ControlPlanesLeaveOneAfterTheOther(t *testing.T) {
	if !lab.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := &trio{site: site{Cluster: newCluster(t)}}
	if err := s.begin(t.Context(), 3, 0, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := s.enter(t.Context(), s.planes[1:]...); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*nodes.Node{s.planes[2], s.planes[1]} {
		dismiss(t, s, ours, n)
		// What is written twice, as the first answer was lost, is no error.
		await(t, "the API without "+n.Name(), patience, func() error {
			_, err := s.cp.Kubectl(t.Context(), "annotate", "--overwrite", "namespace", "default", "without="+n.Name())
			return err
		})
	}
	if last := run(t, s.cp, ours, "reset", "--force"); !strings.Contains(last, "etcd has no other voter") {
		t.Errorf("the last of all is told nothing of its cluster:\n%s", last)
	}
}

// TestS144_AControlPlaneWithADeadEtcdLeaves has neither API server nor etcd on the machine that leaves. Its manifest tells
// who the others are.
func TestS144_AControlPlaneWithADeadEtcdLeaves(t *testing.T) {
	if !lab.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := high(t)
	n := s.planes[2]
	shell(t, n, "systemctl stop kubelet; kill -9 $(pgrep --exact --oldest etcd)")
	s.balancer.Refuse()
	result, err := n.Run(t.Context(), ours, "reset", "--force")
	if again := s.balancer.Open(); err != nil || again != nil {
		t.Fatal(err, again)
	}
	t.Logf("the reset took %s", result.Duration.Round(time.Millisecond))
	if strings.Contains(result.Stderr, "not removed") {
		t.Errorf("the member was not removed:\n%s", result.Stderr)
	}
	comesBack(t, s, n)
}

// TestS144_WhoTakesTheQuorumAlongIsWarned lets the second of three leave while the third is down. Before it is asked, and
// when it does so all the same, it reads what that means; etcd refuses, and what to do later is told.
func TestS144_WhoTakesTheQuorumAlongIsWarned(t *testing.T) {
	if !lab.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := high(t)
	n, down := s.planes[1], s.planes[2]
	if err := down.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It may have been the leader.
	quorum(t, s.cp)
	quorum(t, n)
	means := "1 of 2 voting etcd members are healthy, and a quorum needs 2: asking etcd member " + down.Name()
	refused(t, n, []string{means, "nothing was changed"}, ours, "reset")
	result, err := n.Run(t.Context(), ours, "reset", "--force")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", result.Duration.Round(time.Millisecond), strings.Join(tail(result.Stderr, 8), "\n"))
	remedy := regexp.MustCompile(`etcdctl (member remove [0-9a-f]+)`).FindStringSubmatch(result.Stderr)
	if remedy == nil || !strings.Contains(result.Stderr, means) {
		t.Fatalf("the user is not told what this means and what to do:\n%s", result.Stderr)
	}
	if err := down.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	quorum(t, s.cp)
	await(t, "etcd to let the member go", patience, func() error {
		_, err := s.cp.Run(t.Context(), asEtcd(strings.Fields(remedy[1])...)...)
		if err != nil && strings.Contains(err.Error(), "member not found") {
			return nil // The answer to the first attempt was lost.
		}
		return err
	})
	comesBack(t, s, n)
}

// comesBack checks that etcd goes on without a control plane that was reset, and puts a new machine in its place.
func comesBack(t *testing.T, s *trio, n *nodes.Node) {
	t.Helper()
	seat(t, s, slices.DeleteFunc(slices.Clone(s.planes), func(other *nodes.Node) bool { return other == n })...)
	vote(t, s.planes...)
	for _, other := range s.planes {
		await(t, "the API server of "+other.Name(), patience, func() error {
			_, err := other.Kubectl(t.Context(), "--server=https://"+other.Address()+":6443", "get", "--raw", "/readyz")
			return err
		})
	}
	bury(t, s, n)
	n, err := s.AddAt(t.Context(), n.Name(), n.Address())
	if err != nil {
		t.Fatal(err)
	}
	run(t, n, planeCommand(ours, s)...)
	admit(t, s, n)
}
