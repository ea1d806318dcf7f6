package worldtest

import (
	"errors"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Losses asks of w what every world promises of members that leave. via reaches the first of three voters, as which
// the cluster is left behind; down is the peer URL of one of the others, which has just died.
func Losses(t *testing.T, w Etcd, via state.Etcd, down string) {
	e := etcdSuite{t, w, via, down}
	var up string
	for _, m := range e.list() {
		dead := m.PeerURLs[0] == down
		if !dead {
			e.status(m)
		} else if s, err := w.MemberStatus(t.Context(), via, m); err == nil {
			t.Errorf("member %s, which is dead, says of itself: %+v", m.Name, s)
		}
		if !dead && m.ClientURLs[0] != via.Endpoints[0] {
			up = m.PeerURLs[0]
		}
	}
	needed := etcdSuite{t, w, via, up}
	if err := w.Do(t.Context(), needed.set(change.Absent)); !errors.Is(err, change.ErrQuorum) {
		t.Errorf("a member whose loss would cost the quorum is removed with the answer: %v", err)
	}
	e.do(change.Absent)
	needed.do(change.Absent)
	if all := e.list(); len(all) != 1 {
		t.Errorf("one member should be left: %+v", all)
	}
}

// Lost asks of w what every world promises of a cluster that has lost its quorum. via reaches a member that is up.
func Lost(t *testing.T, w Etcd, via state.Etcd) {
	if all, err := w.Members(t.Context(), via); err == nil {
		t.Errorf("without a quorum nobody should know for sure who the members are: %+v", all)
	}
	for _, state := range []change.MemberState{change.Absent, change.Learner, change.Voter} {
		set := change.SetMember{PeerURL: "https://192.0.2.99:2380", State: state, Via: via}
		if done, err := set.Done(t.Context(), membersOnly{members: w}); done || err != nil {
			t.Errorf("%s: done is %v, %v, though nobody can tell", set, done, err)
		}
	}
	via.Stale = true
	e := etcdSuite{t: t, w: w, via: via}
	if all := e.list(); len(all) < 2 {
		t.Errorf("a member should tell what it knows by itself: %+v", all)
	}
}
