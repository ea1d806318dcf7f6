// Package etcd lists, adds, promotes and removes the members of an etcd cluster. Each call opens
// its own connections and closes them, since the reachable members change while a cluster grows
// or shrinks.
package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kubeadm/internal/change"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

const (
	defaultTimeout = 2 * time.Minute
	// callTimeout limits the connection of one attempt at one endpoint, and then its calls.
	callTimeout = 2 * time.Second
	// handshakeTimeout is for connections that are accepted, if no other endpoint answers: on a busy machine
	// the TLS handshake takes long.
	handshakeTimeout = 10 * time.Second
	// etcd counts a member as connected after five seconds. A change that it refuses for twice
	// that time, because of the quorum, it will not accept later.
	defaultRefusalTimeout = 10 * time.Second
	// KeepProposing pauses twice as long as the previous request took, within these limits: etcd
	// spends at most a third of its time on the requests, and they are few on a slow disk, where
	// each costs a write.
	minPause = 4 * time.Millisecond
	maxPause = time.Second
)

// Cluster reads and changes the members of etcd clusters. It is safe for concurrent use.
type Cluster struct {
	// Timeout limits one change with all its attempts if the context has no deadline; zero
	// means two minutes.
	Timeout time.Duration
	// RefusalTimeout limits how long a change that etcd refuses, because of its quorum or another
	// learner, is retried; zero means ten seconds.
	RefusalTimeout time.Duration

	readFile func(path string) ([]byte, error)
}

// New returns a Cluster that reads certificates and keys with readFile.
func New(readFile func(path string) ([]byte, error)) *Cluster {
	return &Cluster{readFile: readFile}
}

// Members lists the members in etcd's own order. It tries each endpoint once, until one answers.
func (k *Cluster) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	var all []state.Member
	var options []clientv3.OpOption
	if via.Serializable {
		options = append(options, clientv3.WithSerializable())
	}
	list := func(ctx context.Context, c *clientv3.Client) error {
		answer, err := newMemberClient(c).MemberList(ctx, options...)
		if err != nil {
			return err
		}
		all = nil
		for _, m := range answer.Members {
			all = append(all, state.Member{ID: m.ID, Name: untrusted.Line(m.Name),
				PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner,
				ClusterID: answer.Header.GetClusterId()})
		}
		return nil
	}
	a, err := k.newAttempt(via, list)
	if err == nil {
		err = a.eachOnce(ctx)
	}
	if err != nil && via.Serializable && via.Peer != "" && ctx.Err() == nil {
		peers, peerErr := k.membersOfPeer(ctx, via)
		if peerErr == nil {
			return peers, nil
		}
		err = fmt.Errorf("%w; %w", err, peerErr)
	} else if err != nil && !world.IsPermanent(err) {
		err = a.awaitHandshakes(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("listing etcd members: %w", err)
	}
	return all, nil
}

// newMemberClient returns the Cluster API at the only endpoint of c. The Cluster in c itself waits
// for the connection until the deadline and does not return the reason if there is none.
func newMemberClient(c *clientv3.Client) clientv3.Cluster {
	return clientv3.NewClusterFromClusterClient(etcdserverpb.NewClusterClient(c.ActiveConnection()),
		nil)
}

// MemberStatus reads the status of one member. It tries each of its client URLs once, until one
// answers.
func (k *Cluster) MemberStatus(ctx context.Context, via state.Etcd,
	m state.Member) (s state.MemberStatus, err error) {
	via.Endpoints = m.ClientURLs
	if len(via.Endpoints) == 0 {
		return s, fmt.Errorf("getting the status of etcd member %s: it has not started",
			cmp.Or(m.Name, strconv.FormatUint(m.ID, 16)))
	}
	err = k.tryEndpoints(ctx, via, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).Status(ctx,
			&etcdserverpb.StatusRequest{})
		if err != nil {
			return err
		}
		s = state.MemberStatus{ID: answer.GetHeader().GetMemberId(),
			ClusterID: answer.GetHeader().GetClusterId(), AppliedIndex: answer.GetRaftAppliedIndex(),
			CommittedIndex: answer.GetRaftIndex(), Leader: answer.GetLeader(),
			Revision: answer.GetHeader().GetRevision(), Version: untrusted.Line(answer.GetVersion()),
			DBSize: answer.GetDbSize(), DBInUse: answer.GetDbSizeInUse(),
			DBQuota: answer.GetDbSizeQuota()}
		for _, text := range answer.GetErrors() {
			s.Problems = append(s.Problems, untrusted.Line(text))
		}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("getting the status of etcd member %s: %w", m.Name, err)
	}
	return s, nil
}

// KeepProposing sends requests for the list of alarms, one after the other, until the context ends.
// Each of them is a raft proposal.
func (k *Cluster) KeepProposing(ctx context.Context, via state.Etcd) error {
	for {
		err := k.tryEndpoints(ctx, via, func(ctx context.Context, c *clientv3.Client) error {
			alarms := etcdserverpb.NewMaintenanceClient(c.ActiveConnection())
			return repeatRequest(ctx, func() error {
				_, err := alarms.Alarm(ctx,
					&etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_GET})
				return err
			})
		})
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// repeatRequest sends requests until the context ends or one fails. It returns an error only if
// the first one fails. After each response it pauses for twice as long as the request took, at
// least 4 ms and at most a second.
func repeatRequest(ctx context.Context, send func() error) error {
	for count := 0; ; count++ {
		started := time.Now()
		if err := send(); err != nil {
			if count == 0 {
				return err
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(max(2*time.Since(started), minPause), maxPause)):
		}
	}
}

// Do carries out a change of etcd.
func (k *Cluster) Do(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.SetMember:
		return k.setMember(ctx, c)
	case change.Defragment:
		return k.defragment(ctx, c)
	case change.CompactHistory:
		return k.compact(ctx, c)
	case change.DisarmAlarm:
		return k.disarm(ctx, c)
	}
	return fmt.Errorf("etcd cannot carry out a %T", c)
}

// setMember retries until the Timeout: a cluster that has just changed may refuse the next change for a
// moment. If etcd refuses the change for longer than the RefusalTimeout, the error wraps one of those in
// change/member.go.
//
// It removes any member, even the last one, but etcd refuses a removal that would lose the quorum.
func (k *Cluster) setMember(ctx context.Context, set change.SetMember) error {
	var last error
	var refused time.Time
	err := world.Poll(ctx, nil, world.Condition{
		Name:    "etcd",
		Timeout: world.TimeLeft(ctx, cmp.Or(k.Timeout, defaultTimeout)),
		Check: func(ctx context.Context, _ state.Reader) error {
			last = k.tryEndpoints(ctx, set.Via,
				func(ctx context.Context, c *clientv3.Client) error {
					return applyOnce(ctx, newMemberClient(c), set)
				})
			if world.IsPermanent(last) || k.isRefusedTooLong(last, &refused) {
				return world.Permanent(last)
			}
			return last
		},
	})
	if world.IsPermanent(err) {
		return last
	}
	return err
}

// isRefusedTooLong reports whether etcd has refused the change for longer than the RefusalTimeout.
// since is the time of the first refusal in a row.
func (k *Cluster) isRefusedTooLong(err error, since *time.Time) bool {
	if !errors.Is(err, change.ErrWouldLoseQuorum) && !errors.Is(err, change.ErrMemberAddRefused) &&
		!errors.Is(err, change.ErrLearnerNotReady) {
		*since = time.Time{}
		return false
	}
	if since.IsZero() {
		*since = time.Now()
	}
	return time.Since(*since) >= cmp.Or(k.RefusalTimeout, defaultRefusalTimeout)
}

// tryEndpoints calls do at one endpoint after the other until one succeeds. If none does, those that accept
// connections without completing the handshake get more time for it.
func (k *Cluster) tryEndpoints(ctx context.Context, via state.Etcd, do func(context.Context, *clientv3.Client) error) error {
	a, err := k.newAttempt(via, do)
	if err != nil {
		return err
	}
	if err := a.eachOnce(ctx); err == nil || world.IsPermanent(err) {
		return err
	}
	return a.awaitHandshakes(ctx)
}

// attempt is the attempt to do something at one of several endpoints.
type attempt struct {
	via    state.Etcd
	trust  *tls.Config
	do     func(context.Context, *clientv3.Client) error
	failed map[string]error // by endpoint
}

func (k *Cluster) newAttempt(via state.Etcd, do func(context.Context, *clientv3.Client) error) (*attempt, error) {
	if len(via.Endpoints) == 0 {
		return nil, world.Permanent(errors.New("no etcd endpoint is known"))
	}
	trust, err := k.loadTLSConfig(via)
	if err != nil {
		return nil, world.Permanent(err)
	}
	return &attempt{via: via, trust: trust, do: do, failed: map[string]error{}}, nil
}

// eachOnce tries one endpoint after the other.
func (a *attempt) eachOnce(ctx context.Context) error {
	for _, endpoint := range a.via.Endpoints {
		c, err := connect(ctx, endpoint, a.trust, callTimeout)
		if err == nil {
			err = call(ctx, c, a.do)
		}
		if err == nil || world.IsPermanent(err) {
			return err
		}
		a.failed[endpoint] = err
	}
	return a.err()
}

// awaitHandshakes tries the endpoints again that accept connections, but had not completed the handshake in
// time, as they get ready. On a busy machine that takes long, and on a member that was started without a
// quorum it never happens.
func (a *attempt) awaitHandshakes(ctx context.Context) error {
	type connection struct {
		endpoint string
		client   *clientv3.Client
		err      error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	opened, count := make(chan connection), 0
	for endpoint, err := range a.failed {
		if !errors.Is(err, errNotConnected) {
			continue
		}
		count++
		go func() {
			err := err
			var c *clientv3.Client
			if acceptsConnections(ctx, endpoint) {
				c, err = connect(ctx, endpoint, a.trust, handshakeTimeout)
			}
			opened <- connection{endpoint, c, err}
		}()
	}
	if count > 0 {
		world.ReportProgress(ctx, "etcd has not completed the TLS handshake within %s, waiting up to %s", callTimeout, handshakeTimeout)
	}
	done := false
	var result error
	for range count {
		next := <-opened
		switch {
		case next.err != nil:
			a.failed[next.endpoint] = next.err
		case done:
			_ = next.client.Close()
		default:
			err := call(ctx, next.client, a.do)
			if done = err == nil || world.IsPermanent(err); done {
				result = err
				cancel() // the others are not needed
			} else {
				a.failed[next.endpoint] = err
			}
		}
	}
	if done {
		return result
	}
	return a.err()
}

// err is the error of all endpoints.
func (a *attempt) err() error {
	var all error
	for _, endpoint := range a.via.Endpoints {
		err := fmt.Errorf("at %s: %w", endpoint, untrusted.Error(a.failed[endpoint]))
		if all != nil {
			err = fmt.Errorf("%w; %w", all, err)
		}
		all = err
	}
	return problem.New(all, certificateHints(a.via, a.trust, all)...)
}
