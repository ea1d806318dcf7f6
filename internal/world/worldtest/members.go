package worldtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Etcd is the part of a world that the suite of etcd members uses.
type Etcd interface {
	state.Members
	Do(ctx context.Context, c change.Change) error
}

// JoiningMember is a member that the suite adds and removes.
type JoiningMember struct {
	PeerURL string
	Start   func() // starts the member after it was added; a simulation may do nothing
}

// Members checks adding, promoting and removing members. via reaches a cluster of one
// member, as which the suite leaves it.
func Members(t *testing.T, w Etcd, via state.Etcd, j JoiningMember) {
	e := etcdSuite{t, w, via, j.PeerURL}
	if all := e.list(); len(all) != 1 || all[0].Learner {
		t.Fatalf("there should be one voter at first: %+v", all)
	}
	e.done(change.Absent, true)
	e.done(change.Learner, false)

	e.do(change.Learner)
	if m := e.find(); m == nil || !m.Learner || m.ID == 0 {
		t.Fatalf("an added member should be a learner with an ID: %+v", m)
	}
	e.done(change.Learner, true)
	e.done(change.Voter, false)
	e.do(change.Learner)
	other := change.SetMember{PeerURL: "https://192.0.2.99:2380", State: change.Learner, Via: via}
	if err := w.Do(t.Context(), other); !errors.Is(err, change.ErrMemberAddRefused) {
		t.Errorf("adding a second learner: %v", err)
	}
	if all := e.list(); len(all) != 2 {
		t.Errorf("adding a member twice should add one: %+v", all)
	}

	learner := change.SetMember{PeerURL: "https://192.0.2.99:2380", From: j.PeerURL, State: change.Voter, Via: via}
	if err := w.Do(t.Context(), learner); err == nil || e.find() == nil || !e.find().Learner {
		t.Errorf("the peer URL of a learner was changed: %v", err)
	}

	j.Start()
	e.do(change.Voter)
	if m := e.find(); m == nil || m.Learner {
		t.Fatalf("a promoted member should be a voter: %+v", m)
	}
	for _, m := range e.list() {
		if s := e.status(m); s.AppliedIndex == 0 || s.CommittedIndex == 0 || s.Leader == 0 ||
			s.Revision == 0 || s.Version == "" {
			t.Errorf("member %s reports %+v", m.Name, s)
		}
	}
	e.done(change.Voter, true)
	e.do(change.Voter)
	e.do(change.Learner)
	e.done(change.Learner, true)
	if m := e.find(); m == nil || m.Learner {
		t.Errorf("a voter should never become a learner: %+v", m)
	}
	e.move()

	e.do(change.Absent)
	e.do(change.Absent)
	e.done(change.Absent, true)
	if all := e.list(); len(all) != 1 {
		t.Errorf("one member should be left: %+v", all)
	}
	if err := w.Do(t.Context(), e.set(change.Voter)); err == nil {
		t.Error("a member that does not exist was promoted")
	}
}

// move gives a voter another peer URL, and the one from before again.
func (e etcdSuite) move() {
	e.t.Helper()
	scheme, _, _ := strings.Cut(e.peerURL, "://")
	there := change.SetMember{PeerURL: scheme + "://127.0.0.1:9", From: e.peerURL, State: change.Voter, Via: e.via}
	id := e.find().ID
	for range 2 { // the second time it is done
		if err := e.w.Do(e.t.Context(), there); err != nil {
			e.t.Fatalf("%s: %v", there, err)
		}
	}
	if e.find() != nil {
		e.t.Error("the member still has its peer URL from before")
	}
	for _, m := range e.list() {
		if m.ID == id {
			continue
		}
		taken := change.SetMember{PeerURL: m.PeerURLs[0], From: there.PeerURL, State: change.Voter, Via: e.via}
		if err := e.w.Do(e.t.Context(), taken); err == nil {
			e.t.Errorf("%s: two members have one peer URL", taken)
		}
	}
	missing := there
	missing.PeerURL, missing.From = scheme+"://127.0.0.1:10", scheme+"://127.0.0.1:11"
	if err := e.w.Do(e.t.Context(), missing); err == nil {
		e.t.Error("the peer URL of a member that does not exist was changed")
	}
	back := change.SetMember{PeerURL: e.peerURL, From: there.PeerURL, State: change.Voter, Via: e.via}
	if err := e.w.Do(e.t.Context(), back); err != nil {
		e.t.Fatalf("%s: %v", back, err)
	}
	if m := e.find(); m == nil || m.ID != id || m.Learner {
		e.t.Errorf("after its way back the member is %+v, its ID was %x", m, id)
	}
}

// status returns the status of a member once it is healthy, for which it must have a leader.
func (e etcdSuite) status(m state.Member) state.MemberStatus {
	e.t.Helper()
	return retryUntilAnswer(e.t, "member "+m.Name,
		func(ctx context.Context) (state.MemberStatus, error) {
			s, err := e.w.MemberStatus(ctx, e.via, m)
			if err == nil && len(s.Problems) > 0 {
				err = fmt.Errorf("it reports %q", s.Problems)
			}
			return s, err
		})
}

// retryUntilAnswer retries a request: etcd does not answer during a leader election, and a busy
// machine may be too slow.
func retryUntilAnswer[T any](t *testing.T, of string,
	request func(context.Context) (T, error)) (got T) {
	t.Helper()
	err := world.Poll(t.Context(), nil,
		world.Condition{Name: "an answer of " + of, Timeout: time.Minute,
			Check: func(ctx context.Context, _ state.Reader) (err error) {
				got, err = request(ctx)
				return err
			}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

type etcdSuite struct {
	t       *testing.T
	w       Etcd
	via     state.Etcd
	peerURL string
}

func (e etcdSuite) set(s change.MemberState) change.SetMember {
	return change.SetMember{PeerURL: e.peerURL, State: s, Via: e.via}
}

func (e etcdSuite) do(s change.MemberState) {
	e.t.Helper()
	if err := e.w.Do(e.t.Context(), e.set(s)); err != nil {
		e.t.Fatalf("%s: %v", e.set(s), err)
	}
}

func (e etcdSuite) done(s change.MemberState, want bool) {
	e.t.Helper()
	got := retryUntilAnswer(e.t, "etcd",
		func(ctx context.Context) (bool, error) {
			return e.set(s).Done(ctx, membersOnly{members: e.w})
		})
	if got != want {
		e.t.Errorf("Done of %q is %v", e.set(s), got)
	}
}

func (e etcdSuite) list() []state.Member {
	e.t.Helper()
	return retryUntilAnswer(e.t, "etcd",
		func(ctx context.Context) ([]state.Member, error) { return e.w.Members(ctx, e.via) })
}

func (e etcdSuite) find() *state.Member {
	e.t.Helper()
	all := e.list()
	at := slices.IndexFunc(all,
		func(m state.Member) bool { return slices.Contains(m.PeerURLs, e.peerURL) })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// membersOnly is a Reader of members only.
type membersOnly struct {
	members
	otherReads
}

type members = state.Members

// otherReads is embedded one level deeper than the methods that are used, so these take
// precedence.
type otherReads struct{ state.Reader }
