package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/clusterlock"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// lockedCluster is a cluster in which another node changes etcd's members while this one waits for the lock.
type lockedCluster struct {
	world.World
	changeMembers func()
}

func (w lockedCluster) Do(ctx context.Context, c change.Change) error {
	if strings.Contains(c.Target(), clusterlock.LeaseName) {
		w.changeMembers()
	}
	return w.World.Do(ctx, c)
}

// What is removed is the member that the user saw, in the state in which the user saw it, whatever another
// node has done until this one holds the lock.
func TestRemovalAfterMembersHaveChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testMachine)
		flags  []string
		want   string // in the error; empty if the member is removed
	}{
		"nothing has changed": {change: func(*testMachine) {}},
		"another member has its place": {func(m *testMachine) { m.world.MemberList[2].ID = 9; m.world.UnreachableMembers = nil },
			[]string{"--yes"}, `etcd member "cp3" has the ID 3 no longer`},
		"it was removed":   {func(m *testMachine) { m.world.MemberList = m.world.MemberList[:2] }, nil, `etcd member "cp3" has the ID 3 no longer`},
		"it is healthy":    {func(m *testMachine) { m.world.UnreachableMembers = nil }, nil, "etcd member cp3 has become healthy in the meantime"},
		"healthy, and yes": {change: func(m *testMachine) { m.world.UnreachableMembers = nil }, flags: []string{"--yes"}},
		"another one is lost": {func(m *testMachine) { m.world.UnreachableMembers = []uint64{2} }, []string{"--yes"},
			"etcd member cp3 cannot be removed"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newEtcdNodeOfThree(t)
			done := false
			m.Host.World = func() world.World {
				return lockedCluster{m.world, func() {
					if !done {
						done = true
						c.change(m)
					}
				}}
			}
			before := 3
			err := m.run(t.Context(), append([]string{"etcd", "members", "remove", "cp3"}, c.flags...)...)
			if !done {
				t.Fatal("the lock was not taken")
			}
			if c.want == "" {
				if err != nil || len(m.world.MemberList) != before-1 {
					t.Errorf("%v, the members are %v", err, m.world.MemberList)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q is not in %v", c.want, err)
			}
			if name != "it was removed" && len(m.world.MemberList) != before {
				t.Errorf("the members are %v", m.world.MemberList)
			}
		})
	}
}

// newEtcdNodeOfThree is a control plane node whose etcd has three members, the last of which is lost.
func newEtcdNodeOfThree(t *testing.T) *testMachine {
	t.Helper()
	m := newEtcdNode(t)
	for id := 2; id <= 3; id++ {
		m.world.MemberList = append(m.world.MemberList, state.Member{ID: uint64(id), Name: fmt.Sprintf("cp%d", id),
			PeerURLs:   []string{fmt.Sprintf("https://192.0.2.1%d:2380", id-1)},
			ClientURLs: []string{fmt.Sprintf("https://192.0.2.1%d:2379", id-1)}})
	}
	m.world.UnreachableMembers = []uint64{3}
	return m
}
