package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
)

func TestEtcdRestart(t *testing.T) {
	const loss = "[ERROR EtcdQuorum]: etcd would lose its quorum while the member of this node " +
		"restarts; unhealthy members: "
	for name, c := range map[string]struct {
		members int
		down    []uint64
		learner bool   // the last member is a learner
		want    string // beginning of the finding; empty for none
	}{
		"a single member": {1, nil, false, ""},
		"a single member down": {1, []uint64{1}, false,
			"[ERROR EtcdQuorum]: etcd's members cannot be listed: "},
		"two members": {2, nil, false, ""},
		"the other of two is down": {2, []uint64{2}, false,
			"[ERROR EtcdQuorum]: etcd's members cannot be listed: "},
		"three members": {3, nil, false, ""},
		"another of three is down": {3, []uint64{2}, false,
			loss + "1 of 3 (cp2); "},
		"another of five is down": {5, []uint64{2}, false, ""},
		"two of five are down": {5, []uint64{2, 3}, false,
			loss + "2 of 5 (cp2, cp3); "},
		"a learner": {3, nil, true, "[ERROR EtcdQuorum]: etcd member cp3 "},
	} {
		t.Run(name, func(t *testing.T) {
			w := withMembers(c.members, c.learner)
			w.UnreachableMembers = c.down
			found := Run(t.Context(), w, EtcdRestart(etcdNode()), nil).Findings
			if got := lines(found); (got == "") != (c.want == "") ||
				!strings.HasPrefix(got, c.want) || len(found) > 1 {
				t.Errorf("got  %s\nwant %s…", got, c.want)
			}
		})
	}
}

func etcdNode() *node.Node {
	return &node.Node{Local: node.Local{Role: node.ControlPlane, Address: "192.0.2.10",
		Paths: node.DefaultPaths()}}
}

// withMembers is a machine with the first of n etcd members, the last of which may be a learner.
func withMembers(n int, learner bool) *fake.World {
	w := fake.New()
	for i := 1; i <= n; i++ {
		ip := fmt.Sprintf("192.0.2.%d", 9+i)
		w.MemberList = append(w.MemberList, state.Member{ID: uint64(i),
			Name: fmt.Sprintf("cp%d", i), PeerURLs: []string{"https://" + ip + ":2380"},
			ClientURLs: []string{"https://" + ip + ":2379"}, Learner: learner && i == n})
	}
	return w
}

// alarmed is a machine whose etcd members with these IDs raise an alarm.
type alarmed struct {
	*fake.World
	ids []uint64
}

func (a alarmed) MemberStatus(ctx context.Context, via state.Etcd,
	m state.Member) (state.MemberStatus, error) {
	if slices.Contains(a.ids, m.ID) {
		return state.MemberStatus{Problems: []string{"alarm CORRUPT"}}, nil
	}
	return a.World.MemberStatus(ctx, via, m)
}

// The member of this node need not be healthy: its restart takes no healthy one away.
func TestEtcdRestartOfUnhealthyMember(t *testing.T) {
	for want, ids := range map[string][]uint64{"": {1},
		"[ERROR EtcdQuorum]: etcd has no quorum: 1 of 3 ": {1, 2}} {
		found := Run(t.Context(), alarmed{withMembers(3, false), ids},
			EtcdRestart(etcdNode()), nil).Findings
		if got := lines(found); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("members %v with an alarm: got %q, want %q…", ids, got, want)
		}
	}
}

// A member that counts another quorum than the others do may serve requests all along, until one restarts.
func TestEtcdRestartWithConflict(t *testing.T) {
	w := withMembers(3, false)
	removed := state.Member{ID: 9, PeerURLs: []string{"https://192.0.2.99:2380"}}
	w.OwnLists = map[uint64][]state.Member{2: append(slices.Clone(w.MemberList), removed)}
	found := Run(t.Context(), w, EtcdRestart(etcdNode()), nil).Findings
	const want = "[ERROR EtcdQuorum]: etcd member cp2 knows other members than the others do: its list of the members " +
		"contradicts that of the others: it lists voter 9 at https://192.0.2.99:2380, which the others do not"
	if got := lines(found); !strings.HasPrefix(got, want) || len(found) > 1 {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEtcdRestartIsNotCheckedElsewhere(t *testing.T) {
	worker := &node.Node{Local: node.Local{Role: node.Worker}}
	external := &node.Node{Local: node.Local{Role: node.ControlPlane}}
	external.Cluster.Etcd.External = &node.ExternalEtcd{}
	for _, n := range []*node.Node{worker, external} {
		if checks := EtcdRestart(n); len(checks) > 0 {
			t.Errorf("%v: %v", n.Role, checks)
		}
	}
}
