package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
)

// applyOnce reads the state of the member and sends the one request that is needed. Since each
// attempt reads the state first, a request whose response was lost does no harm.
func applyOnce(ctx context.Context, c clientv3.Cluster, set change.SetMember) error {
	answer, err := c.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("listing members: %w", err)
	}
	member := findMember(answer.Members, set.PeerURL)
	if set.From != "" && set.State == change.Voter {
		if from := findMember(answer.Members, set.From); member == nil || from != nil {
			return updateMember(ctx, c, from, set)
		}
	}
	switch set.State {
	case change.Absent:
		return removeMember(ctx, c, member)
	case change.Learner:
		if member != nil {
			return nil
		}
		return addLearner(ctx, c, set.PeerURL)
	case change.Voter:
		return promoteLearner(ctx, c, member, set.PeerURL)
	}
	return world.Permanent(fmt.Errorf("unknown state %q of an etcd member", set.State))
}

func findMember(all []*etcdserverpb.Member, peerURL string) *clientv3.Member {
	for _, m := range all {
		if len(m.PeerURLs) > 0 && m.PeerURLs[0] == peerURL {
			return (*clientv3.Member)(m)
		}
	}
	return nil
}

// updateMember gives a voter another peer URL. A learner is refused: etcd before 3.5.31 and 3.6.12 may promote it
// by that.
func updateMember(ctx context.Context, c clientv3.Cluster, member *clientv3.Member, set change.SetMember) error {
	switch {
	case member == nil:
		return world.Permanent(fmt.Errorf("etcd has no member at %s whose peer URL could change", set.From))
	case member.IsLearner:
		return world.Permanent(fmt.Errorf("the etcd member at %s is a learner", set.From))
	}
	_, err := c.MemberUpdate(ctx, member.ID, []string{set.PeerURL})
	if errors.Is(err, rpctypes.ErrPeerURLExist) || errors.Is(err, rpctypes.ErrMemberBadURLs) {
		return world.Permanent(fmt.Errorf("etcd accepts no peer URL %q: %w", set.PeerURL, err))
	}
	return err
}

func removeMember(ctx context.Context, c clientv3.Cluster, member *clientv3.Member) error {
	if member == nil {
		return nil
	}
	_, err := c.MemberRemove(ctx, member.ID)
	switch {
	case errors.Is(err, rpctypes.ErrMemberNotFound):
		return nil
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrMemberNotEnoughStarted):
		return change.ErrWouldLoseQuorum
	}
	return err
}

func addLearner(ctx context.Context, c clientv3.Cluster, peerURL string) error {
	_, err := c.MemberAddAsLearner(ctx, []string{peerURL})
	switch {
	case errors.Is(err, rpctypes.ErrMemberBadURLs):
		return world.Permanent(fmt.Errorf("etcd accepts no member at %q: %w", peerURL, err))
	case errors.Is(err, rpctypes.ErrTooManyLearners):
		return world.Permanent(fmt.Errorf("%w: %w", change.ErrMemberAddRefused, err))
	case errors.Is(err, rpctypes.ErrUnhealthy):
		return fmt.Errorf("%w: %w", change.ErrMemberAddRefused, err)
	}
	return err
}

func promoteLearner(ctx context.Context, c clientv3.Cluster, member *clientv3.Member,
	peerURL string) error {
	switch {
	case member == nil:
		return world.Permanent(
			fmt.Errorf("etcd has no member at %s to promote: it must be added as a learner first",
				peerURL))
	case !member.IsLearner:
		return nil
	case member.Name == "":
		return errors.New("the new member has not started")
	}
	_, err := c.MemberPromote(ctx, member.ID)
	switch {
	case errors.Is(err, rpctypes.ErrMemberNotLearner):
		return nil
	case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
		return fmt.Errorf("%w: %w", change.ErrLearnerNotReady, err)
	}
	return err
}
