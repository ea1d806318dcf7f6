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

// step looks where the member stands and makes the one call that is missing. Since each
// attempt looks first, a call whose answer was lost does no harm.
func step(ctx context.Context, c clientv3.Cluster, set change.SetMember) error {
	now, err := find(ctx, c, set.PeerURL)
	if err != nil {
		return err
	}
	switch set.State {
	case change.Absent:
		return remove(ctx, c, now)
	case change.Learner:
		return announce(ctx, c, now, set.PeerURL)
	case change.Voter:
		return promote(ctx, c, now, set.PeerURL)
	}
	return world.GiveUp(fmt.Errorf("an etcd member cannot be %q", set.State))
}

// find returns the member whose first peer URL it is, or nil.
func find(ctx context.Context, c clientv3.Cluster, peerURL string) (*clientv3.Member, error) {
	answer, err := c.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing members: %w", err)
	}
	for _, m := range answer.Members {
		if len(m.PeerURLs) > 0 && m.PeerURLs[0] == peerURL {
			return (*clientv3.Member)(m), nil
		}
	}
	return nil, nil
}

func remove(ctx context.Context, c clientv3.Cluster, now *clientv3.Member) error {
	if now == nil {
		return nil
	}
	_, err := c.MemberRemove(ctx, now.ID)
	switch {
	case errors.Is(err, rpctypes.ErrMemberNotFound):
		return nil
	case errors.Is(err, rpctypes.ErrUnhealthy), errors.Is(err, rpctypes.ErrMemberNotEnoughStarted):
		return change.ErrQuorum
	}
	return err
}

func announce(ctx context.Context, c clientv3.Cluster, now *clientv3.Member, peerURL string) error {
	if now != nil {
		return nil
	}
	_, err := c.MemberAddAsLearner(ctx, []string{peerURL})
	switch {
	case errors.Is(err, rpctypes.ErrMemberBadURLs):
		return world.GiveUp(fmt.Errorf("etcd takes no member at %q: %w", peerURL, err))
	case errors.Is(err, rpctypes.ErrTooManyLearners):
		return world.GiveUp(fmt.Errorf("%w: %w", change.ErrNotItsTurn, err))
	case errors.Is(err, rpctypes.ErrUnhealthy):
		return fmt.Errorf("%w: %w", change.ErrNotItsTurn, err)
	}
	return err
}

func promote(ctx context.Context, c clientv3.Cluster, now *clientv3.Member, peerURL string) error {
	switch {
	case now == nil:
		return world.GiveUp(fmt.Errorf("etcd has no member at %s to promote: it must be added as a learner first", peerURL))
	case !now.IsLearner:
		return nil
	case now.Name == "":
		return errors.New("the new member has not started")
	}
	_, err := c.MemberPromote(ctx, now.ID)
	switch {
	case errors.Is(err, rpctypes.ErrMemberNotLearner):
		return nil
	case errors.Is(err, rpctypes.ErrMemberLearnerNotReady):
		return fmt.Errorf("%w: %w", change.ErrBehind, err)
	}
	return err
}
