package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// How long this machine waits for others.
const (
	// unreachableTimeout is how long a voter may be away before it counts as lost: a static Pod that ends is back within this.
	unreachableTimeout = 40 * time.Second
	// maxAttempts is how many members may be added before this one, each within the time for one.
	maxAttempts = 20
)

// learnerSlot is the line of the machines that want to add a member. etcd takes one learner at a time, and none
// while too many voters are away; nobody keeps the line, so all in it have the same chance when the place is free.
type learnerSlot struct {
	n                *node.Node
	via              state.Etcd
	rejected         bool                 // etcd did not take the member though it was its turn
	answeredAt       time.Time            // when etcd answered last
	other            learnerProgress      // of the learner that was there at the last look
	otherSince       time.Time            // when it was seen first to be so far
	unreachableSince map[uint64]time.Time // since when a voter does not answer
}

// learnerProgress is how far a learner is, as far as others see it.
type learnerProgress struct {
	id    uint64
	name  string
	index uint64 // of the last change that it has applied; 0 while it tells nothing, and again once it has caught up
}

// newLearnerProgress does not count what a learner applies that has caught up: it follows the others for ever, if nobody is left to let it vote.
func newLearnerProgress(learner state.Member, roll etcdcluster.Health) learnerProgress {
	p := learnerProgress{id: learner.ID, name: learner.Name}
	if roll.CaughtUp(learner.ID) != nil {
		p.index = roll.Said[learner.ID].Index
	}
	return p
}

// addLearner adds this machine's member as a learner, when it is its turn.
func addLearner(ctx context.Context, e *flow.Env, n *node.Node, via state.Etcd) error {
	q := &learnerSlot{n: n, via: via, unreachableSince: map[uint64]time.Time{}}
	e.Say("announcing etcd member %s at %s", n.Name, n.PeerURL())
	for range maxAttempts {
		if err := e.Await(ctx, q.isFree()); err != nil {
			return err
		}
		err := e.Do(ctx, change.SetMember{PeerURL: n.PeerURL(), State: change.Learner, Via: via})
		if !errors.Is(err, change.ErrNotItsTurn) {
			return err
		}
		q.rejected = true
		e.Say("not yet: %v", err)
	}
	return fmt.Errorf("etcd member %s did not get its turn: others were added before it %d times", n.Name, maxAttempts)
}

// isFree holds when no other member is being added, or when this machine's member has been added already. Once
// etcd has refused it nevertheless, all that vote must be there.
func (q *learnerSlot) isFree() world.Condition {
	q.answeredAt = time.Time{}
	return world.Condition{
		Name:    "etcd to be ready for one more member",
		Timeout: maxAttempts * q.n.Timeouts.EtcdAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			roll, err := etcdcluster.CheckHealthQuickly(ctx, r, q.via)
			if err != nil {
				return q.checkError(err, r.Now())
			}
			q.answeredAt = r.Now()
			if roll.At(q.n.PeerURL()) != nil {
				return nil
			}
			if other := roll.Learner(); other != nil {
				q.rejected = false // for its sake: what comes after it is not known
				return q.occupiedError(*other, newLearnerProgress(*other, roll), r.Now())
			}
			if !q.rejected {
				return nil
			}
			return q.checkVoters(ctx, r)
		},
	}
}

// checkError gives up on an etcd that has not answered for the time of one question: the line is long, but it must move.
func (q *learnerSlot) checkError(err error, now time.Time) error {
	if q.answeredAt.IsZero() {
		q.answeredAt = now
	}
	if now.Sub(q.answeredAt) < q.n.Timeouts.EtcdAPI {
		return err
	}
	return world.GiveUp(err)
}

// occupiedError tells of the learner that is before this machine, and gives up on one that does not come to an end.
func (q *learnerSlot) occupiedError(other state.Member, at learnerProgress, now time.Time) error {
	if at != q.other {
		q.other, q.otherSince = at, now
	}
	err := fmt.Errorf("member %s at %s is being added, this one comes after it", etcdcluster.MemberName(other), other.PeerURLs)
	if now.Sub(q.otherSince) < q.n.Timeouts.EtcdAPI {
		return err
	}
	return world.GiveUp(problem.New("", fmt.Errorf("member %s at %s has made no progress for %s and holds all others up",
		etcdcluster.MemberName(other), other.PeerURLs, now.Sub(q.otherSince).Round(time.Second)),
		"give the join of that machine again, so that it comes to its end",
		replaceMemberHint(other)))
}

// checkVoters gives up on voters that stay away: etcd takes no member meanwhile.
func (q *learnerSlot) checkVoters(ctx context.Context, r state.Reader) error {
	roll, err := etcdcluster.CheckHealth(ctx, r, q.via)
	if err != nil {
		return q.checkError(err, r.Now())
	}
	now, away := r.Now(), map[uint64]time.Time{}
	var lost error
	for _, m := range roll.Down() {
		away[m.ID] = now
		if before, ok := q.unreachableSince[m.ID]; ok {
			away[m.ID] = before
		}
		lost = errors.Join(lost, q.unreachableVoterError(m, roll.Silent[m.ID], now.Sub(away[m.ID])))
	}
	q.unreachableSince = away
	return lost
}

func (q *learnerSlot) unreachableVoterError(m state.Member, why error, since time.Duration) error {
	err := fmt.Errorf("etcd takes no member while %s at %s is away: %w", etcdcluster.MemberName(m), m.PeerURLs, why)
	if since < unreachableTimeout {
		return err
	}
	return world.GiveUp(problem.New("", err, "bring the machine of "+etcdcluster.MemberName(m)+" back, then give the same command again", replaceMemberHint(m)))
}

// replaceMemberHint is what to do about a member that will not come back.
func replaceMemberHint(m state.Member) string {
	return fmt.Sprintf("if that machine is gone for good, give the same command with --replace-member=%s", etcdcluster.MemberName(m))
}
