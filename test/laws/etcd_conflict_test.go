package laws

import (
	"slices"
	"testing"

	"kubeadm/internal/state"
)

// A member that is healthy but knows other members than the rest gets their data; without a contradiction there is
// nothing to do.
func TestRejoinOfContradictingMember(t *testing.T) {
	s := rejoinSubject()
	m := s.machine(t)
	s.newRun(m).mustSucceed(t)
	find := func() *state.Member {
		return &m.MemberList[slices.IndexFunc(m.MemberList,
			func(m state.Member) bool { return slices.Contains(m.PeerURLs, ownPeer) })]
	}
	before := *find()
	if out := s.newRun(m).mustSucceed(t); len(out.did) > 0 {
		t.Errorf("a member that agrees with the others was changed: %v", out.did)
	}
	removed := state.Member{ID: 77, PeerURLs: []string{"https://192.0.2.99:2380"}}
	find().ClientURLs = []string{"https://192.0.2.10:2379"} // at which it is asked
	m.OwnLists = map[uint64][]state.Member{before.ID: append(slices.Clone(m.MemberList), removed)}
	s.newRun(m).mustSucceed(t)
	if after := find(); after.ID == before.ID || after.Learner || len(m.MemberList) != 2 {
		t.Errorf("the member was %+v; the members are %+v", before, m.MemberList)
	}
}
