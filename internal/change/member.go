package change

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"kubeadm/internal/state"
)

// ErrNotItsTurn says that etcd takes no learner now: there is one already, or some voters are away.
var ErrNotItsTurn = errors.New("etcd takes no further member now")

// ErrQuorum says that etcd does not let a member go, since of those left behind too few are up.
var ErrQuorum = errors.New("of the members left behind too few are up to decide anything")

// ErrBehind says that a learner may not vote yet: it lacks some of what the others know.
var ErrBehind = errors.New("the learner has not caught up with the others")

// MemberState is where an etcd member stands.
type MemberState string

// The states of a member, from outside the cluster to a vote in it.
const (
	Absent  MemberState = "absent"
	Learner MemberState = "learner"
	Voter   MemberState = "voter"
)

// SetMember makes the etcd member with a peer URL be in a state. A voter counts as a
// learner: it is never made less by being asked for a learner.
type SetMember struct {
	PeerURL string
	State   MemberState
	Via     state.Etcd
}

// Target is the member.
func (c SetMember) Target() string { return "member:" + c.PeerURL }

func (c SetMember) String() string {
	switch c.State {
	case Absent:
		return fmt.Sprintf("remove etcd member %s", c.PeerURL)
	case Learner:
		return fmt.Sprintf("add etcd member %s as a learner", c.PeerURL)
	}
	return fmt.Sprintf("promote etcd member %s to a voter", c.PeerURL)
}

// Done reports whether the member is in that state. Where etcd cannot be asked, as while it elects a
// leader, the change is not done: carrying it out asks again for as long as that may take.
func (c SetMember) Done(ctx context.Context, r state.Reader) (bool, error) {
	now, err := c.now(ctx, r)
	return err == nil && (now == c.State || c.State == Learner && now == Voter), nil
}

// Breakable marks that it may be broken off: what is tried again and again looks first each time.
func (c SetMember) Breakable() {}

// Inverse puts the member back into its present state; a voter never becomes a
// learner again, and what was removed comes back without its data.
func (c SetMember) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	now, err := c.now(ctx, r)
	if err != nil || now != Absent {
		return nil, cmp.Or(err, ErrOneWay)
	}
	return SetMember{PeerURL: c.PeerURL, State: Absent, Via: c.Via}, nil
}

func (c SetMember) now(ctx context.Context, r state.Reader) (MemberState, error) {
	all, err := r.Members(ctx, c.Via)
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
