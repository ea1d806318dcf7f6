package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

const (
	// unreachableTimeout is how long a voter may be unreachable before it counts as lost: a static
	// Pod that exits is back within this.
	unreachableTimeout = 40 * time.Second
	// maxAttempts is how many other members may be added before this one, each within
	// Timeouts.EtcdAPI.
	maxAttempts = 20
)

// addLearner adds this machine's member as a learner, once etcd accepts it. lostHint says what to do about
// a member that will not come back.
func addLearner(ctx context.Context, e *engine.Env, n *node.Node, via state.Etcd,
	lostHint func(state.Member) string) error {
	slot := &learnerSlot{n: n, via: via, lostHint: lostHint, unreachableSince: map[uint64]time.Time{}}
	e.Say("adding etcd member %s at %s as a learner", n.Name, n.PeerURL())
	for range maxAttempts {
		if err := e.Await(ctx, slot.isFree()); err != nil {
			return err
		}
		err := e.Do(ctx, change.SetMember{PeerURL: n.PeerURL(), State: change.Learner, Via: via})
		if !errors.Is(err, change.ErrMemberAddRefused) {
			return err
		}
		slot.rejected = true
		e.Say("not yet: %v", err)
	}
	return fmt.Errorf("adding etcd member %s: gave up after %d attempts because other members were being added at the same time",
		n.Name, maxAttempts)
}

// learnerSlot waits until a learner can be added. etcd has one learner at a time, and accepts none
// while too many voters are unreachable. Machines that wait have no order: each tries when there
// is no learner.
type learnerSlot struct {
	n                *node.Node
	via              state.Etcd
	lostHint         func(state.Member) string
	rejected         bool                 // etcd rejected our learner though there was no other
	answeredAt       time.Time            // when etcd answered last
	other            learnerProgress      // of another machine's learner, at the last check
	otherSince       time.Time            // when other was first seen with this progress
	unreachableSince map[uint64]time.Time // by ID of the voter
}

// learnerProgress is how far a learner has got.
type learnerProgress struct {
	id   uint64
	name string // empty until it is published
	// the last applied index; 0 while it does not answer, and again once it has caught up
	index uint64
}

// isFree is met when etcd has no other learner, or this machine's member already. After etcd has
// rejected our learner, all voters must be reachable too.
func (s *learnerSlot) isFree() world.Condition {
	s.answeredAt = time.Time{}
	return world.Condition{
		Name:    "etcd to be ready for one more member",
		Timeout: maxAttempts * s.n.Timeouts.EtcdAPI,
		Check: func(ctx context.Context, r state.Reader) error {
			members, err := etcdcluster.CheckHealthQuickly(ctx, r, s.via)
			if err != nil {
				return s.checkError(err, r.Now())
			}
			s.answeredAt = r.Now()
			if members.FindByPeerURL(s.n.PeerURL()) != nil {
				return nil
			}
			if other := members.FindLearner(); other != nil {
				s.rejected = false // that was because of the other learner
				return s.occupiedError(*other, members, r.Now())
			}
			if !s.rejected {
				return nil
			}
			return s.checkVoters(ctx, r)
		},
	}
}

// checkError gives up if etcd has not answered for Timeouts.EtcdAPI. The wait for other learners
// may take longer.
func (s *learnerSlot) checkError(err error, now time.Time) error {
	if s.answeredAt.IsZero() {
		s.answeredAt = now
	}
	if now.Sub(s.answeredAt) < s.n.Timeouts.EtcdAPI {
		return err
	}
	return world.Permanent(err)
}

// occupiedError names the other learner, and gives up if that makes no progress.
func (s *learnerSlot) occupiedError(other state.Member, members etcdcluster.Health,
	now time.Time) error {
	progress := learnerProgress{id: other.ID, name: other.Name}
	// The index of a learner that has caught up does not count: it keeps growing even if nothing
	// promotes the learner.
	if members.CheckAppliedIndex(other.ID) != nil {
		progress.index = members.Healthy[other.ID].AppliedIndex
	}
	if progress != s.other {
		s.other, s.otherSince = progress, now
	}
	name := etcdcluster.MemberName(other)
	if now.Sub(s.otherSince) < s.n.Timeouts.EtcdAPI {
		return fmt.Errorf("etcd can have only one learner at a time, and member %s at %s is being added",
			name, other.PeerURLs)
	}
	return world.Permanent(problem.New(
		fmt.Errorf("etcd can have only one learner at a time, and member %s at %s has made no progress for %s",
			name, other.PeerURLs, now.Sub(s.otherSince).Round(time.Second)),
		"complete it on that machine: re-run kubeadm join or kubeadm etcd rejoin there",
		s.lostHint(other)))
}

// checkVoters gives up if a voter stays unreachable: etcd accepts no learner meanwhile.
func (s *learnerSlot) checkVoters(ctx context.Context, r state.Reader) error {
	members, err := etcdcluster.CheckHealth(ctx, r, s.via)
	if err != nil {
		return s.checkError(err, r.Now())
	}
	now, unreachableSince := r.Now(), map[uint64]time.Time{}
	var errs error
	for _, m := range members.UnhealthyVoters() {
		since, ok := s.unreachableSince[m.ID]
		if !ok {
			since = now
		}
		unreachableSince[m.ID] = since
		err := fmt.Errorf("etcd does not accept a learner while %s at %s is unreachable: %w",
			etcdcluster.MemberName(m), m.PeerURLs, members.Unhealthy[m.ID])
		if now.Sub(since) >= unreachableTimeout {
			err = world.Permanent(problem.New(err,
				"start the machine of "+etcdcluster.MemberName(m)+
					", then re-run the command", s.lostHint(m)))
		}
		errs = errors.Join(errs, err)
	}
	s.unreachableSince = unreachableSince
	return errs
}

// replaceMemberHint says how to replace a member that will not come back.
func replaceMemberHint(m state.Member) string {
	return fmt.Sprintf("if that machine is lost, re-run the command with --replace-member=%s",
		etcdcluster.MemberName(m))
}
