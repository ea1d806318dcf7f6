package worldtest

import (
	"errors"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// MemberRemovals checks the removal of members. via reaches the first of three voters, which
// remains as the only member at the end; down is the peer URL of one of the others, which has just
// been killed.
func MemberRemovals(t *testing.T, w Etcd, via state.Etcd, down string) {
	e := etcdSuite{t, w, via, down}
	var up string
	for _, m := range e.list() {
		isDown := m.PeerURLs[0] == down
		if !isDown {
			e.status(m)
		} else if s, err := w.MemberStatus(t.Context(), via, m); err == nil {
			t.Errorf("member %s, which was killed, reports %+v", m.Name, s)
		}
		if !isDown && m.ClientURLs[0] != via.Endpoints[0] {
			up = m.PeerURLs[0]
		}
	}
	needed := etcdSuite{t, w, via, up}
	if err := w.Do(t.Context(), needed.set(change.Absent)); !errors.Is(err,
		change.ErrWouldLoseQuorum) {
		t.Errorf("removing a member that the quorum needs: %v", err)
	}
	e.do(change.Absent)
	needed.do(change.Absent)
	if all := e.list(); len(all) != 1 {
		t.Errorf("one member should be left: %+v", all)
	}
}

// QuorumLoss checks a cluster that has lost its quorum. via reaches a running member.
func QuorumLoss(t *testing.T, w Etcd, via state.Etcd) {
	if all, err := w.Members(t.Context(), via); err == nil {
		t.Errorf("a linearizable member list without a quorum: %+v", all)
	}
	for _, state := range []change.MemberState{change.Absent, change.Learner, change.Voter} {
		set := change.SetMember{PeerURL: "https://192.0.2.99:2380", State: state, Via: via}
		if done, err := set.Done(t.Context(), membersOnly{members: w}); done || err != nil {
			t.Errorf("%s: done is %v, %v without a quorum", set, done, err)
		}
	}
	via.Serializable = true
	e := etcdSuite{t: t, w: w, via: via}
	if all := e.list(); len(all) < 2 {
		t.Errorf("the serializable member list is %+v", all)
	}
}
