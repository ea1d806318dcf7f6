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
	"it has caught up with the other members, but does not serve clients")

// publishTimeout is how long a learner may take to answer clients, while its health endpoint reports
// that it has caught up, until it counts as not published. etcd keeps a connection open until it
// serves, so one that does not answer in that time has not begun to serve.
const publishTimeout = 150 * time.Millisecond

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
	behind := checkHTTPHealth(ctx, r, state.Request{URL: manifest.EtcdHealthURL(m.n), Loopback: true})
	if behind == nil && !m.restarted {
		if err := m.checkPublished(ctx, r); err != nil {
			return err
		}
	}
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
	if behind != nil {
		behind = fmt.Errorf("it has not caught up with the other members yet: %w", behind)
	}
	return joinCause(crashCause(ctx, r, m.watch), cmp.Or(behind, ErrLearnerNotPublished))
}

// checkPublished gives up if the learner, which has caught up and whose name the other members know,
// does not answer clients.
func (m *learnerWait) checkPublished(ctx context.Context, r state.Reader) error {
	members, err := r.Members(ctx, m.via)
	if err != nil {
		return err
	}
	member := etcdcluster.Health{Members: members}.FindByPeerURL(m.n.PeerURL())
	if member == nil || !member.Learner || member.Name == "" {
		return nil
	}
	asked := r.Now()
	limited, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if _, err := r.MemberStatus(limited, m.via, *member); err != nil &&
		r.Now().Sub(asked) >= publishTimeout {
		return world.Permanent(ErrLearnerNotPublished)
	}
	return nil
}
