package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// replaceMembers removes the members whose place this machine takes: those that departed decides on.
func replaceMembers(ctx context.Context, e *flow.Env, n *node.Node, via state.Etcd) error {
	stale, err := findMembersToReplace(ctx, e, n, via)
	if err != nil {
		return err
	}
	for _, m := range stale {
		if err := confirmUnreachable(ctx, e, via, m); err != nil {
			return err
		}
		e.Say("removing etcd member %s at %s, whose place this machine takes", etcdcluster.MemberName(m), m.PeerURLs)
		if err := e.Do(ctx, change.SetMember{PeerURL: m.PeerURLs[0], State: change.Absent, Via: via}); err != nil {
			return err
		}
	}
	return nil
}

// confirmationTime is for how long a member that did not answer is asked again before it is removed.
const confirmationTime = 5 * time.Second

// confirmUnreachable wants a voter that is to be removed to be silent for a while: one that is starting again just now is not gone.
func confirmUnreachable(ctx context.Context, e *flow.Env, via state.Etcd, m state.Member) error {
	if m.Learner {
		return nil
	}
	silent := e.Await(ctx, world.Condition{
		Name:    fmt.Sprintf("etcd member %s to answer, should it live", etcdcluster.MemberName(m)),
		Timeout: confirmationTime,
		Outside: true,
		Check: func(ctx context.Context, r state.Reader) error {
			_, err := r.MemberStatus(ctx, via, m)
			return err
		},
	})
	if silent != nil {
		return context.Cause(ctx)
	}
	return memberAnswersError(etcdcluster.MemberName(m), m)
}

// memberAnswersError is the error of a member that the user wants to be replaced and that lives.
func memberAnswersError(name string, m state.Member) error {
	return problem.New("", fmt.Errorf("etcd member %s at %s answers: it is not to be replaced while its machine runs", name, m.PeerURLs),
		"leave out --replace-member="+name,
		"or let that machine leave first: kubeadm reset")
}

// findMembersToReplace are the members to remove before this machine's can be added: what is left of an earlier life of this
// machine, and those that the user gives up. A voter is never given up without being asked, nor where
// that would cost the quorum. All errors tell what to do.
func findMembersToReplace(ctx context.Context, e *flow.Env, n *node.Node, via state.Etcd) ([]state.Member, error) {
	roll, err := checkMembers(ctx, e, n, via)
	if err != nil {
		return nil, err
	}
	stale, err := findStaleMember(ctx, e, n, roll)
	if err != nil {
		return nil, err
	}
	others := roll.Without(n.PeerURL())
	for _, name := range n.Join.ReplaceMembers {
		m := others.Called(name)
		switch {
		case m == nil:
			e.Say("etcd has no other member %s: there is nothing to replace", name)
		case roll.Silent[m.ID] == nil:
			return nil, memberAnswersError(name, *m)
		case !slices.ContainsFunc(stale, func(known state.Member) bool { return known.ID == m.ID }):
			stale = append(stale, *m)
		}
	}
	return stale, checkQuorumAfterRemoval(roll, stale)
}

// checkQuorumAfterRemoval refuses to remove members where the rest could not decide anything.
func checkQuorumAfterRemoval(roll etcdcluster.Health, stale []state.Member) error {
	var without []uint64
	for _, m := range stale {
		without = append(without, m.ID)
	}
	if err := errors.Join(roll.Quorum(), roll.Quorum(without...)); len(stale) > 0 && err != nil {
		return problem.New("no etcd member can be replaced now", err, "bring back the machines of the members that are away")
	}
	return nil
}

// findStaleMember finds what is left in etcd of an earlier life of this machine, by its address and by its name. A learner at
// its address may go at once; the user is asked for the rest. One of its name elsewhere may be that
// of another machine which joins just now.
func findStaleMember(ctx context.Context, e *flow.Env, n *node.Node, roll etcdcluster.Health) ([]state.Member, error) {
	data, err := hasData(ctx, e.World, n)
	if err != nil {
		return nil, err
	}
	m, of, choose := roll.At(n.PeerURL()), "address", flag.APIServerAdvertise
	switch {
	case m != nil && (m.Name == "" || data):
		return nil, nil // has never started, or goes on with its data
	case data:
		return nil, problem.New("", fmt.Errorf("%s holds the data of a member that etcd has no more: somebody has removed it", n.Cluster.Etcd.DataDir),
			"remove the data, and what else the earlier join left: kubeadm reset; then join this machine again")
	case m == nil:
		if m, of, choose = roll.Called(n.Name), "name", flag.NodeName; m == nil {
			return nil, nil
		}
	}
	switch {
	case roll.Silent[m.ID] == nil:
		return nil, problem.New("", fmt.Errorf("etcd has a member %s at %s already, and it answers: another machine has this %s", etcdcluster.MemberName(*m), m.PeerURLs, of),
			fmt.Sprintf("choose another %s with --%s", of, choose))
	case isReplaceRequested(n, *m), m.Learner && of == "address":
		return []state.Member{*m}, nil
	}
	return nil, problem.New("", fmt.Errorf("etcd has a member %s at %s that does not answer: it is of an earlier machine of this %s", etcdcluster.MemberName(*m), m.PeerURLs, of),
		replaceMemberHint(*m), "if its data are still needed, bring that machine back instead")
}

// isReplaceRequested tells whether the user gives the member up.
func isReplaceRequested(n *node.Node, m state.Member) bool {
	alone := etcdcluster.Health{Members: []state.Member{m}}
	return slices.ContainsFunc(n.Join.ReplaceMembers, func(name string) bool { return alone.Called(name) != nil })
}
