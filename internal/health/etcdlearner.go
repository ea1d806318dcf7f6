package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// ErrLearnerNotPublished says that a learner has applied all entries of the others and still does
// not serve clients. On start, etcd publishes the member's name and client URLs with a proposal,
// and serves clients once it has applied that. If it got the entry with a snapshot it does not see
// it, and proposes it again after seven seconds. A restarted member proposes it at once
// (docs/decisions/0023).
var ErrLearnerNotPublished = errors.New(
	"it has caught up with the other members, but does not serve clients yet")

// ErrLearnerRemoved says that etcd does not have the learner any more.
var ErrLearnerRemoved = errors.New("it has been removed from etcd in the meantime")

// How long a learner whose name the other members know may take to answer clients. etcd keeps a
// connection open until it serves, so one that does not answer in that time has hardly begun to serve.
const (
	// snapshotTimeout is for the first request, while the learner gets a snapshot, as most do in less. Its
	// health endpoint is asked later: that waits for an answer of the leader, which is lost when the learner
	// has applied the snapshot and connects again, and repeats its request only after half a second.
	snapshotTimeout = 50 * time.Millisecond
	// publishTimeout is for a request that begins when the health endpoint reports that the learner has
	// caught up.
	publishTimeout = 100 * time.Millisecond
)

// learnerWait is the wait for this machine's learner.
type learnerWait struct {
	n         *node.Node
	via       state.Etcd
	watch     *crashWatch
	restarted bool // it was restarted already
}

// EtcdLearner is met once this machine's etcd learner serves clients and has nearly caught up, so
// that it may be promoted. A learner that must be restarted for that ends the wait with
// ErrLearnerNotPublished, unless it was restarted already.
func EtcdLearner(n *node.Node, via state.Etcd, restarted bool) world.Condition {
	m := &learnerWait{n: n, via: via, restarted: restarted,
		watch: &crashWatch{socket: n.CRISocket, component: manifest.Etcd}}
	return world.Condition{
		Name:     fmt.Sprintf("etcd member %s to run and to catch up with the others", n.Name),
		Timeout:  n.Timeouts.EtcdAPI,
		MaxPause: 25 * time.Millisecond,
		Check:    m.check,
	}
}

func (m *learnerWait) check(ctx context.Context, r state.Reader) error {
	all, err := r.Members(ctx, m.via)
	if err != nil {
		return err
	}
	member := etcdcluster.Health{Members: all}.FindByPeerURL(m.n.PeerURL())
	switch {
	case member == nil:
		return world.Permanent(ErrLearnerRemoved)
	case !member.Learner:
		return nil
	case member.Name == "":
		return joinCause(crashCause(ctx, r, m.watch),
			errors.New("it has not published its name to the other members yet"))
	}
	if _, err := m.ask(ctx, r, *member, snapshotTimeout); err == nil {
		return m.checkCaughtUp(ctx, r, member.ID)
	}
	behind := checkHTTPHealth(ctx, r, state.Request{URL: manifest.EtcdHealthURL(m.n), Loopback: true})
	if behind != nil {
		return joinCause(crashCause(ctx, r, m.watch),
			fmt.Errorf("it has not caught up with the other members yet: %w", behind))
	}
	isSilent, err := m.ask(ctx, r, *member, publishTimeout)
	switch {
	case err == nil:
		return m.checkCaughtUp(ctx, r, member.ID)
	case isSilent && !m.restarted:
		return world.Permanent(ErrLearnerNotPublished)
	}
	return joinCause(crashCause(ctx, r, m.watch), ErrLearnerNotPublished)
}

// ask asks the learner for its status as a client. It is silent if it takes longer than the limit.
func (m *learnerWait) ask(ctx context.Context, r state.Reader, learner state.Member,
	limit time.Duration) (isSilent bool, err error) {
	asked := r.Now()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err = r.MemberStatus(limited, m.via, learner)
	return r.Now().Sub(asked) >= limit, err
}

// checkCaughtUp returns why a learner that answers clients may not be promoted yet.
func (m *learnerWait) checkCaughtUp(ctx context.Context, r state.Reader, id uint64) error {
	members, err := etcdcluster.CheckHealthQuickly(ctx, r, m.via)
	if err != nil {
		return err
	}
	return cmp.Or(members.Unhealthy[id], members.CheckAppliedIndex(id))
}
