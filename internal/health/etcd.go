package health

import (
	"context"
	"errors"
	"fmt"

	"kubeadm/internal/change"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/survey"
	"kubeadm/internal/world"
)

// EtcdMember holds once this machine's etcd member, which has been announced to the others, runs and, as far as can
// be seen, knows nearly all that they know. Then it can be tried to let it vote.
func EtcdMember(n *node.Node, via change.Etcd) world.Condition {
	b := &blame{socket: n.CRISocket, component: manifest.Etcd}
	return world.Condition{
		Name:    fmt.Sprintf("etcd member %s to run and to catch up with the others", n.Name),
		Timeout: n.Timeouts.EtcdAPI,
		Check: func(ctx context.Context, r change.Reader) error {
			roll, err := survey.Glance(ctx, r, via)
			if err != nil {
				return err
			}
			own := roll.At(n.PeerURL())
			switch {
			case own == nil:
				return world.GiveUp(errors.New("it was removed from etcd meanwhile: kubeadm reset, then join this machine again"))
			case !own.Learner:
				return nil
			case own.Name == "":
				return b.explain(ctx, r, errors.New("it has not made itself known to the others yet"))
			case roll.Silent[own.ID] != nil:
				// It answers nobody until it knows all, so how far it is cannot be seen; only whether it keeps ending.
				if err := b.explain(ctx, r, errors.New("it does not answer")); world.Hopeless(err) {
					return err
				}
				return nil
			}
			return caughtUp(roll, own.ID)
		},
	}
}

// caughtUp wants the member to have applied nine tenths of what any other has: etcd's own measure for a learner
// that may be promoted.
func caughtUp(roll survey.Roll, id uint64) error {
	var newest uint64
	for _, s := range roll.Said {
		newest = max(newest, s.Index)
	}
	if has := roll.Said[id].Index; has < newest-newest/10 {
		return fmt.Errorf("it has %d of %d changes", has, newest)
	}
	return nil
}
