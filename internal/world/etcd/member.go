package etcd

import (
	"context"
	"errors"
	"fmt"

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
	var member *clientv3.Member
	for _, m := range answer.Members {
		if len(m.PeerURLs) > 0 && m.PeerURLs[0] == set.PeerURL {
			member = (*clientv3.Member)(m)
			break
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
