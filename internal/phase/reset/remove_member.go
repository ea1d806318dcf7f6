package reset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/manifest"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// How long a reset looks for the other members if none answers: longer if this machine's member is
// known to have joined others.
const (
	findTimeout       = 5 * time.Second
	findTimeoutJoined = 30 * time.Second
)

// Each attempt of a removal asks the members of that moment, and outlasts the ten seconds for
// which etcd may reject it to protect the quorum.
const (
	attemptTimeout = 20 * time.Second
	maxAttempts    = 10
)

// quorumLossTimeout is how long too many voters must be unreachable until the quorum counts as
// lost: a static Pod that exits is back within this.
const quorumLossTimeout = 40 * time.Second

// removeMember removes this machine's member from its etcd cluster, unless it is the last voter.
// It asks the others, as a member that removes itself does not see the result. While etcd elects a
// leader, or another control plane is reset too, it retries, for Timeouts.EtcdAPI in total. If the
// quorum is lost it gives up earlier.
func removeMember(ctx context.Context, e *engine.Env, local localMember) error {
	begun, limit := e.World.Now(), cmp.Or(e.Local.Timeouts.EtcdAPI, 2*time.Minute)
	var out outage
	for count := 1; ; count++ {
		members, err := local.findMembers(ctx, e)
		if err != nil {
			return problem.During("looking for the other members", err,
				"if there are others, remove this machine's member on one of them: kubeadm etcd members remove")
		}
		others := slices.DeleteFunc(slices.Clone(members.Members), local.matches)
		self := slices.IndexFunc(members.Members, local.matches)
		switch {
		case !hasVoter(others):
			e.Say("this is the last voting etcd member: removing its data deletes the etcd cluster")
			return nil
		case self < 0:
			e.Say("this machine's member is no longer in the etcd cluster")
			return nil
		}
		out.record(members, e.World.Now())
		m := members.Members[self]
		byHand := fmt.Sprintf("remove it on another control plane node: kubeadm etcd members remove %x", m.ID)
		if count == 1 {
			if err := checkMemberAddress(ctx, e, m); err != nil {
				return problem.New(err, "if this machine had that address, "+byHand)
			}
			reportQuorum(e, members, m)
			var names []string
			for _, other := range others {
				names = append(names, etcdcluster.MemberName(other))
			}
			e.Say("removing this machine's member from etcd through %s", strings.Join(names, ", "))
		}
		attempt, cancel := context.WithTimeoutCause(ctx, attemptTimeout,
			fmt.Errorf("did not succeed within %s", attemptTimeout))
		err = e.Do(attempt, change.SetMember{PeerURL: m.PeerURLs[0], State: change.Absent,
			Via: local.viaOthers(members, others)})
		cancel()
		if err == nil {
			return nil
		}
		left := limit - e.World.Now().Sub(begun)
		if ctx.Err() != nil || errors.Is(err, change.ErrWouldLoseQuorum) ||
			world.IsPermanent(err) || count == maxAttempts || left <= 0 {
			return problem.New(err, byHand)
		}
		e.Say("etcd has not removed the member yet, retrying: %v", err)
		if lost := e.Await(ctx, local.newRetryCondition(e, left, &out)); lost != nil {
			return problem.New(fmt.Errorf("%w; %w", err, lost), byHand)
		}
	}
}

func hasVoter(members []state.Member) bool {
	return slices.ContainsFunc(members, func(m state.Member) bool { return !m.Learner })
}

// outage measures for how long fewer voters than a quorum answer.
type outage struct {
	since time.Time // zero while enough of them answer
}

// record adds a health check and returns how long the outage has lasted.
func (u *outage) record(members etcdcluster.Health, now time.Time) time.Duration {
	switch {
	case members.HasAnsweringQuorum():
		u.since = time.Time{}
		return 0
	case u.since.IsZero():
		u.since = now
	}
	return now.Sub(u.since)
}

// newRetryCondition is met when the removal can be retried: etcd has a quorum, or no other voter
// is left. It gives up when the outage has lasted for quorumLossTimeout: members that elect a
// leader answer, unlike those of a lost quorum.
func (l localMember) newRetryCondition(e *engine.Env, limit time.Duration,
	out *outage) world.Condition {
	return world.Condition{
		Name:    "a quorum of etcd's members",
		Timeout: limit,
		Check: func(ctx context.Context, _ state.Reader) error {
			members, err := l.checkMembers(ctx, e)
			if err != nil || !hasVoter(slices.DeleteFunc(slices.Clone(members.Members),
				l.matches)) {
				return err
			}
			lasted := out.record(members, e.World.Now())
			if err = members.CheckQuorum(); err != nil && lasted >= quorumLossTimeout {
				return world.Permanent(fmt.Errorf("etcd has had no quorum for %s: %w",
					lasted.Round(time.Second), err))
			}
			return err
		},
	}
}

// findMembers checks the members, and retries for a while if none answers.
func (l localMember) findMembers(ctx context.Context, e *engine.Env) (etcdcluster.Health, error) {
	members, err := l.checkMembers(ctx, e)
	if err == nil {
		return members, nil
	}
	limit := findTimeout
	if len(l.initialClientURLs()) > 0 {
		limit = findTimeoutJoined
	}
	err = e.Await(ctx, world.Condition{
		Name:    "etcd to list its members",
		Timeout: limit,
		Check: func(ctx context.Context, _ state.Reader) (err error) {
			members, err = l.checkMembers(ctx, e)
			return err
		},
	})
	return members, err
}

// checkMemberAddress is an error if this machine does not have the member's address: then it is a
// clone, and the member is that of the original machine.
func checkMemberAddress(ctx context.Context, e *engine.Env, m state.Member) error {
	here, err := e.World.Addresses(ctx)
	if err != nil {
		return fmt.Errorf("reading the addresses of this machine: %w", err)
	}
	var unknown []error
	for _, peer := range m.PeerURLs {
		u, err := url.Parse(peer)
		if err != nil {
			continue
		}
		addresses := []string{u.Hostname()}
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			if addresses, err = e.World.Lookup(ctx, u.Hostname()); err != nil {
				unknown = append(unknown, err)
			}
		}
		for _, text := range addresses {
			ip, err := netip.ParseAddr(text)
			hasAddress := func(a state.Address) bool {
				other, err := netip.ParseAddr(a.IP)
				return err == nil && other.Unmap() == ip.Unmap()
			}
			if err == nil && (ip.IsLoopback() || slices.ContainsFunc(here, hasAddress)) {
				return nil
			}
		}
	}
	return errors.Join(append(unknown,
		fmt.Errorf("etcd member %s has the address %q, but this machine does not: it may be a clone of the member's machine",
			etcdcluster.MemberName(m), m.PeerURLs))...)
}

// ReportQuorumAfterRemoval reports, before anything is changed, what the removal of this machine's
// member means for the quorum. It reports nothing if the members cannot be checked.
func ReportQuorumAfterRemoval(ctx context.Context, e *engine.Env) {
	pod, err := readStaticPod(ctx, e, manifest.Etcd)
	if err != nil {
		return
	}
	local, err := newLocalMember(ctx, e, pod)
	if err != nil {
		return
	}
	members, err := local.checkMembers(ctx, e)
	if err != nil {
		return // the phase reports it
	}
	self := slices.IndexFunc(members.Members, local.matches)
	if self >= 0 && len(members.Members) > 1 &&
		checkMemberAddress(ctx, e, members.Members[self]) == nil {
		reportQuorum(e, members, members.Members[self])
	}
}

// reportQuorum says whether etcd keeps its quorum without the member. It only warns if not, as the
// user decides.
func reportQuorum(e *engine.Env, members etcdcluster.Health, m state.Member) {
	if m.Learner {
		return
	}
	err := members.CheckQuorum(m.ID)
	if err == nil {
		e.Say("etcd keeps its quorum without this machine's member")
		return
	}
	e.Warn("until other members are back, etcd has no quorum without this member, and the API server accepts no changes: %v", err)
	e.Warn("if they are lost, a remaining member can start a new cluster with its data: etcd --force-new-cluster")
}
