package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// replaceMembers removes the members that this machine replaces.
func replaceMembers(ctx context.Context, e *engine.Env, n *node.Node, via state.Etcd) error {
	stale, err := findMembersToReplace(ctx, e, n, via)
	if err != nil {
		return err
	}
	for _, m := range stale {
		if err := confirmUnreachable(ctx, e, via, m); err != nil {
			return err
		}
		e.Say("removing etcd member %s at %s, which this machine will replace",
			etcdcluster.MemberName(m), m.PeerURLs)
		if err := e.Do(ctx, change.SetMember{PeerURL: m.PeerURLs[0], State: change.Absent,
			Via: via}); err != nil {
			return err
		}
	}
	return nil
}

// confirmationTime is how long a member must be unreachable before it is removed.
const confirmationTime = 5 * time.Second

// confirmUnreachable is an error if a voter to remove answers within confirmationTime: it may be
// just restarting.
func confirmUnreachable(ctx context.Context, e *engine.Env, via state.Etcd, m state.Member) error {
	if m.Learner {
		return nil
	}
	unreachable := e.Await(ctx, world.Condition{
		Name: fmt.Sprintf("etcd member %s to answer, in case it is alive",
			etcdcluster.MemberName(m)),
		Timeout:  confirmationTime,
		External: true,
		Check: func(ctx context.Context, r state.Reader) error {
			_, err := r.MemberStatus(ctx, via, m)
			return err
		},
	})
	if unreachable != nil {
		return context.Cause(ctx)
	}
	return memberAnswersError(etcdcluster.MemberName(m), m)
}

// memberAnswersError is the error of a member to replace that is alive.
func memberAnswersError(name string, m state.Member) error {
	return problem.New(fmt.Errorf("etcd member %s at %s is reachable, so it cannot be replaced",
		name, m.PeerURLs),
		"leave out --replace-member="+name,
		"or first remove that machine by running kubeadm reset on it")
}

// findMembersToReplace returns the members to remove before this machine's is added: one that an
// earlier join of this machine left, and those of --replace-member. It checks that a voter to
// remove is unreachable and that the others keep the quorum.
func findMembersToReplace(ctx context.Context, e *engine.Env, n *node.Node,
	via state.Etcd) ([]state.Member, error) {
	members, err := checkMembers(ctx, e, n, via, etcdcluster.CheckHealth)
	if err != nil {
		return nil, err
	}
	stale, err := findStaleMember(ctx, e, n, members)
	if err != nil {
		return nil, err
	}
	others := members.WithoutPeer(n.PeerURL())
	for _, name := range n.Discovery.ReplaceMembers {
		m := others.FindByNameOrID(name)
		switch {
		case m == nil:
			e.Say("etcd has no other member %s: there is nothing to replace", name)
		case members.Unhealthy[m.ID] == nil:
			return nil, memberAnswersError(name, *m)
		case !slices.ContainsFunc(stale, func(s state.Member) bool { return s.ID == m.ID }):
			stale = append(stale, *m)
		}
	}
	return stale, checkQuorumAfterRemoval(members, stale)
}

// checkQuorumAfterRemoval is an error if the members that are left would have no quorum.
func checkQuorumAfterRemoval(members etcdcluster.Health, stale []state.Member) error {
	var without []uint64
	for _, m := range stale {
		without = append(without, m.ID)
	}
	if err := errors.Join(members.CheckQuorum(), members.CheckQuorum(without...)); len(stale) > 0 &&
		err != nil {
		return problem.During("no etcd member can be replaced now", err,
			"start the machines of the unreachable members")
	}
	return nil
}

// findStaleMember finds the member that an earlier join of this machine left in etcd, by its
// address or by its name. A learner at its address can be removed; any other one only with
// --replace-member. A learner of the same name at another address may be of another machine that
// is joining.
func findStaleMember(ctx context.Context, e *engine.Env, n *node.Node,
	members etcdcluster.Health) ([]state.Member, error) {
	_, noData := e.World.Stat(ctx, path.Join(n.Cluster.Etcd.DataDir, "member"))
	if noData != nil && !errors.Is(noData, fs.ErrNotExist) {
		return nil, noData
	}
	hasData := noData == nil
	m, of, choose := members.FindByPeerURL(n.PeerURL()), "address", flag.APIServerAdvertise
	switch {
	case m != nil && (m.Name == "" || hasData):
		return nil, nil // has never started, or still has its data
	case hasData:
		return nil, problem.New(
			fmt.Errorf("%s contains the data of a member that was removed from etcd",
				n.Cluster.Etcd.DataDir),
			"run kubeadm reset to remove the data and everything else that the earlier join left, then join this machine again")
	case m == nil:
		if m, of, choose = members.FindByNameOrID(n.Name), "name", flag.NodeName; m == nil {
			return nil, nil
		}
	}
	switch {
	case members.Unhealthy[m.ID] == nil:
		return nil, problem.New(
			fmt.Errorf("etcd already has a member %s at %s, and it is reachable: another machine has this %s", etcdcluster.MemberName(*m), m.PeerURLs, of),
			fmt.Sprintf("choose another %s with --%s", of, choose))
	case isReplaceRequested(n, *m), m.Learner && of == "address":
		return []state.Member{*m}, nil
	}
	return nil, problem.New(
		fmt.Errorf("etcd has a member %s at %s that does not answer: an earlier machine had this %s", etcdcluster.MemberName(*m), m.PeerURLs, of),
		replaceMemberHint(*m), "if its data is still needed, start that machine instead")
}

// isReplaceRequested reports whether --replace-member names the member.
func isReplaceRequested(n *node.Node, m state.Member) bool {
	alone := etcdcluster.Health{Members: []state.Member{m}}
	return slices.ContainsFunc(n.Discovery.ReplaceMembers,
		func(name string) bool { return alone.FindByNameOrID(name) != nil })
}
