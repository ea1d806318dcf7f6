// Package etcd is the etcd cluster as a part of the world: its members, seen and changed
// over TLS. Each call opens connections of its own and closes them, since the members that can
// be reached change while a cluster grows or shrinks.
package etcd

import (
	"cmp"
	"context"
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
	defaultBound = 2 * time.Minute
	callTimeout  = 2 * time.Second // of all calls of one attempt at one endpoint
	// To etcd a member is up once it has been connected for five seconds: what it refuses for twice as long for the
	// sake of the quorum, it refuses for good.
	defaultPatience = 10 * time.Second
	// Between two questions of Agree lies twice the time that the first one took, within these bounds: etcd
	// spends at most a third of its time on them, and on a slow disk, where each costs a write, they are few.
	shortestRest = 4 * time.Millisecond
	longestRest  = time.Second
)

// Cluster reads and changes the members of etcd clusters. It is safe for use by many at once.
type Cluster struct {
	// Bound limits how long one change, with all its attempts, may take where its context has no
	// deadline; two minutes if it is zero.
	Bound time.Duration
	// Patience is for how long a change is tried again that etcd refuses, to keep its quorum or its order; ten seconds if
	// it is zero.
	Patience time.Duration

	readFile func(path string) ([]byte, error)
}

// New is a Cluster that reads certificates and keys with readFile.
func New(readFile func(path string) ([]byte, error)) *Cluster { return &Cluster{readFile: readFile} }

// Members lists the members in etcd's own order. It asks each endpoint once, until one answers.
func (k *Cluster) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	var all []state.Member
	var how []clientv3.OpOption
	if via.Stale {
		how = append(how, clientv3.WithSerializable())
	}
	err := k.anywhere(ctx, via, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := membersAt(c).MemberList(ctx, how...)
		if err != nil {
			return err
		}
		all = nil
		for _, m := range answer.Members {
			all = append(all, state.Member{ID: m.ID, Name: untrusted.Line(m.Name), PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, Learner: m.IsLearner})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing etcd members: %w", err)
	}
	return all, nil
}

// membersAt speaks of members with the one endpoint that c has. The client's own Cluster waits for the
// connection until the deadline and so never says why there is none.
func membersAt(c *clientv3.Client) clientv3.Cluster {
	return clientv3.NewClusterFromClusterClient(etcdserverpb.NewClusterClient(c.ActiveConnection()), nil)
}

// MemberStatus asks one member itself, once at each of its client URLs until one answers.
func (k *Cluster) MemberStatus(ctx context.Context, via state.Etcd, m state.Member) (s state.MemberStatus, err error) {
	via.Endpoints = m.ClientURLs
	if len(via.Endpoints) == 0 {
		return s, fmt.Errorf("asking etcd member %s: it has not started", cmp.Or(m.Name, strconv.FormatUint(m.ID, 16)))
	}
	err = k.anywhere(ctx, via, func(ctx context.Context, c *clientv3.Client) error {
		answer, err := etcdserverpb.NewMaintenanceClient(c.ActiveConnection()).Status(ctx, &etcdserverpb.StatusRequest{})
		if err != nil {
			return err
		}
		s = state.MemberStatus{Index: answer.GetRaftAppliedIndex()}
		for _, text := range answer.GetErrors() {
			s.Problems = append(s.Problems, untrusted.Line(text))
		}
		return nil
	})
	if err != nil {
		return s, fmt.Errorf("asking etcd member %s: %w", m.Name, err)
	}
	return s, nil
}

// Agree asks for the alarms, one question after the other, until the context ends: a question that etcd
// answers by consensus only. How long an answer takes decides how soon the next question follows.
func (k *Cluster) Agree(ctx context.Context, via state.Etcd) error {
	for {
		err := k.anywhere(ctx, via, func(ctx context.Context, c *clientv3.Client) error {
			alarms := etcdserverpb.NewMaintenanceClient(c.ActiveConnection())
			return askRepeatedly(ctx, func() error {
				_, err := alarms.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_GET})
				return err
			})
		})
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// askRepeatedly asks until the context ends or a question fails; only that the first one fails is an error.
// After each answer it rests for twice as long as the answer took, at least 4 ms and at most a second.
func askRepeatedly(ctx context.Context, ask func() error) error {
	for asked := 0; ; asked++ {
		begun := time.Now()
		if err := ask(); err != nil {
			if asked == 0 {
				return err
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(max(2*time.Since(begun), shortestRest), longestRest)):
		}
	}
}

// Do carries out a SetMember, with attempts until the Bound: a cluster that has just changed may refuse the next
// change for a moment. What is refused for longer than the Patience ends in change.ErrNotItsTurn or change.ErrBehind.
//
// It removes any member it is told to, be it the last one. Where the loss would cost the quorum etcd refuses, which
// ends in change.ErrQuorum once the Patience is over.
func (k *Cluster) Do(ctx context.Context, c change.Change) error {
	set, ok := c.(change.SetMember)
	if !ok {
		return fmt.Errorf("etcd does not carry out a %T", c)
	}
	var last error
	var refused time.Time
	err := world.Poll(ctx, nil, world.Condition{
		Name:    "etcd",
		Timeout: world.Left(ctx, cmp.Or(k.Bound, defaultBound)),
		Check: func(ctx context.Context, _ state.Reader) error {
			last = k.anywhere(ctx, set.Via, func(ctx context.Context, c *clientv3.Client) error {
				return step(ctx, membersAt(c), set)
			})
			if world.Hopeless(last) || k.forGood(last, &refused) {
				return world.GiveUp(last)
			}
			return last
		},
	})
	if world.Hopeless(err) {
		return last
	}
	return err
}

// forGood tells whether etcd has refused for so long that it will not change its mind by itself.
func (k *Cluster) forGood(err error, since *time.Time) bool {
	if !errors.Is(err, change.ErrQuorum) && !errors.Is(err, change.ErrNotItsTurn) && !errors.Is(err, change.ErrBehind) {
		*since = time.Time{}
		return false
	}
	if since.IsZero() {
		*since = time.Now()
	}
	return time.Since(*since) >= cmp.Or(k.Patience, defaultPatience)
}

// anywhere calls do at one endpoint after the other until it succeeds at one of them.
func (k *Cluster) anywhere(ctx context.Context, via state.Etcd, do func(context.Context, *clientv3.Client) error) error {
	if len(via.Endpoints) == 0 {
		return world.GiveUp(errors.New("no etcd endpoint is known"))
	}
	trust, err := k.trust(via)
	if err != nil {
		return world.GiveUp(err)
	}
	var failed error
	for _, endpoint := range via.Endpoints {
		err := at(ctx, endpoint, trust, do)
		if err == nil || world.Hopeless(err) {
			return err
		}
		err = fmt.Errorf("at %s: %w", endpoint, untrusted.Error(err))
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
	}
	return problem.New("", failed, hints(via, trust, failed)...)
}
