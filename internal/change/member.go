package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"kubeadm/internal/state"
)

// ErrMemberAddRefused means that etcd accepts no learner now: it has one already, or some voting
// members are unhealthy.
var ErrMemberAddRefused = errors.New("etcd accepts no new member now")

// ErrWouldLoseQuorum means that etcd refuses to remove a member, as too few of the remaining ones
// are started and healthy.
var ErrWouldLoseQuorum = errors.New(
	"too few of the remaining etcd members are healthy for a quorum")

// ErrLearnerNotReady means that a learner cannot be promoted yet.
var ErrLearnerNotReady = errors.New("the learner is not in sync with the leader yet")

// MemberState is the state of an etcd member.
type MemberState string

// The states of a member.
const (
	Absent  MemberState = "absent"
	Learner MemberState = "learner"
	Voter   MemberState = "voter"
)

// SetMember adds, promotes or removes the etcd member with a peer URL. A voter satisfies
// Learner: it is never demoted.
type SetMember struct {
	PeerURL string
	// From is the previous peer URL of a voter that gets PeerURL; empty for none.
	From  string
	State MemberState
	Via   state.Etcd
}

// Target names the member.
func (c SetMember) Target() string { return "member:" + c.PeerURL }

func (c SetMember) String() string {
	switch c.State {
	case Absent:
		return fmt.Sprintf("remove etcd member %s", c.PeerURL)
	case Learner:
		return fmt.Sprintf("add etcd member %s as a learner", c.PeerURL)
	}
	if c.From != "" {
		return fmt.Sprintf("change the peer URL of etcd member %s to %s", c.From, c.PeerURL)
	}
	return fmt.Sprintf("promote etcd member %s to a voter", c.PeerURL)
}

// Done reports whether the member is in that state. If etcd does not answer, as during a leader
// election, it is false without an error: carrying out the change retries.
func (c SetMember) Done(ctx context.Context, r state.Reader) (bool, error) {
	current, err := c.currentState(ctx, r)
	return err == nil && (current == c.State || c.State == Learner && current == Voter), nil
}

// Cancelable marks the change: each of its attempts reads the member list first.
func (c SetMember) Cancelable() {}

// Inverse removes a member that does not exist yet, or gives a voter its previous peer URL. All else is
// ErrIrreversible: etcd does not demote a voter, and a removed member loses its data.
func (c SetMember) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	current, err := c.currentState(ctx, r)
	if err != nil || current != Absent {
		return nil, cmp.Or(err, ErrIrreversible)
	}
	if c.From != "" {
		return SetMember{PeerURL: c.From, From: c.PeerURL, State: Voter, Via: c.Via}, nil
	}
	return SetMember{PeerURL: c.PeerURL, State: Absent, Via: c.Via}, nil
}

func (c SetMember) currentState(ctx context.Context, r state.Reader) (MemberState, error) {
	all, err := r.Members(ctx, c.Via)
	if c.From != "" && slices.ContainsFunc(all, func(m state.Member) bool { return len(m.PeerURLs) > 0 && m.PeerURLs[0] == c.From }) {
		return Absent, err // a member that has the new peer URL already is another one
	}
	for _, m := range all {
		if len(m.PeerURLs) == 0 || m.PeerURLs[0] != c.PeerURL {
			continue
		}
		if m.Learner {
			return Learner, err
		}
		return Voter, err
	}
	return Absent, err
}
