package health

import (
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
	"it has caught up with the other members, but does not serve clients")

// publishTimeout is how long a learner may be healthy without serving clients until it counts as
// not published.
const publishTimeout = 100 * time.Millisecond

// learnerWait is the wait for this machine's learner.
type learnerWait struct {
	n          *node.Node
	via        state.Etcd
	watch      *crashWatch
	readySince time.Time // when its health endpoint first reported that it has caught up
	restarted  bool      // it was restarted already
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
		MaxPause: 100 * time.Millisecond,
		Check:    m.check,
	}
}

func (m *learnerWait) check(ctx context.Context, r state.Reader) error {
	members, err := etcdcluster.CheckHealthQuickly(ctx, r, m.via)
	if err != nil {
		return err
	}
	member := members.FindByPeerURL(m.n.PeerURL())
	switch {
	case member == nil:
		return world.Permanent(
			errors.New("it was removed from etcd meanwhile: run kubeadm reset, then join this machine again"))
	case !member.Learner:
		return nil
	case member.Name == "":
		return joinCause(crashCause(ctx, r, m.watch),
			errors.New("it has not published its name to the other members yet"))
	}
	problems := members.Unhealthy[member.ID]
	if _, answers := errors.AsType[etcdcluster.ReportedProblems](problems); answers ||
		problems == nil {
		return errors.Join(problems, members.CheckAppliedIndex(member.ID))
	}
	return joinCause(crashCause(ctx, r, m.watch), m.notServingError(ctx, r))
}

// notServingError is the error of a published member that does not serve clients: it is catching
// up, or has not seen its own publish request.
func (m *learnerWait) notServingError(ctx context.Context, r state.Reader) error {
	if err := checkHTTPHealth(ctx, r,
		state.Request{URL: manifest.EtcdHealthURL(m.n), Loopback: true}); err != nil {
		m.readySince = time.Time{}
		return fmt.Errorf("it has not caught up with the other members yet: %w", err)
	}
	if m.readySince.IsZero() {
		m.readySince = r.Now()
	}
	if m.restarted || r.Now().Sub(m.readySince) < publishTimeout {
		return ErrLearnerNotPublished
	}
	return world.Permanent(ErrLearnerNotPublished)
}
