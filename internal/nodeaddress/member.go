package nodeaddress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/existing"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// checkMembers finds how to reach the members of etcd, and checks that this one can move.
func (w *Wanted) checkMembers(ctx context.Context, e *engine.Env, here existing.Machine) error {
	if w.Member == nil || !w.IsReachable {
		return nil
	}
	here.As = w.As
	client, found, err := here.Etcd(ctx, e)
	if err != nil {
		return err
	}
	w.Etcd = client.Etcd
	if w.FindMember(found) == nil && found.CheckQuorum() == nil {
		own := etcdcluster.LocalClient(w.Present.Paths, w.Member.ClientURL)
		_, err := e.World.MemberStatus(ctx, own, state.Member{Name: w.Member.Name, ClientURLs: own.Endpoints})
		if w.IsForgotten = err != nil; w.IsForgotten {
			return errors.Join(w.checkNotTaken(found), context.Cause(ctx))
		}
	}
	member, err := w.CheckMembers(found)
	if err == nil {
		w.addFrom(node.HostOf(member.PeerURLs[0])) // which it may have kept in a move by hand
	}
	return err
}

// CheckMembers returns the member of this machine. It is an error if another one has the new address, or if the others
// would have no quorum while this one restarts.
func (i Intent) CheckMembers(found etcdcluster.Health) (*state.Member, error) {
	if err := i.checkNotTaken(found); err != nil {
		return nil, err
	}
	own := i.FindMember(found)
	members := "see the members: kubeadm etcd members"
	switch {
	case own == nil || len(own.PeerURLs) == 0:
		return nil, problem.New(fmt.Errorf("etcd has no member at %s, as the manifest of this node's member says",
			untrusted.Line(i.Member.PeerURL)), members, "to add it again: kubeadm etcd rejoin")
	case found.FindLearner() != nil:
		return nil, problem.New(fmt.Errorf("etcd member %s is a learner: a control plane node is joining",
			untrusted.Line(etcdcluster.MemberName(*found.FindLearner()))), "wait until that node has joined, or remove the member")
	}
	if err := found.CheckRestart(own.ID); err != nil {
		return nil, problem.New(fmt.Errorf("this node cannot move: %w", err), members, "first bring the unhealthy members back")
	}
	return own, nil
}

// checkNotTaken is an error if the member of another machine has the new address.
func (i Intent) checkNotTaken(found etcdcluster.Health) error {
	own := i.FindMember(found)
	to, _ := netip.ParseAddr(i.To)
	for _, m := range found.Members {
		isOther := own == nil || m.ID != own.ID
		if isOther && slices.ContainsFunc(slices.Concat(m.PeerURLs, m.ClientURLs),
			func(u string) bool { return isSame(node.HostOf(u), to) }) {
			return problem.New(fmt.Errorf("%s is the address of etcd member %s", i.To,
				untrusted.Line(etcdcluster.MemberName(m))), "name an address that no other member has")
		}
	}
	return nil
}

// FindMember returns the member of this machine; nil if there is none. A member of another machine, which is lost, may
// be listed at the new address.
func (i Intent) FindMember(found etcdcluster.Health) *state.Member {
	isMoved := func(m state.Member) bool { return slices.Contains(m.PeerURLs, i.MovedPeerURL()) }
	for _, isOwn := range []func(state.Member) bool{
		func(m state.Member) bool { return slices.Contains(m.PeerURLs, i.Member.PeerURL) },
		func(m state.Member) bool { return m.Name == i.Member.Name && isMoved(m) },
		func(m state.Member) bool { return m.Name == i.Member.Name },
		func(m state.Member) bool { return m.Name == "" && isMoved(m) }, // it has never started
	} {
		if at := slices.IndexFunc(found.Members, isOwn); at >= 0 {
			return &found.Members[at]
		}
	}
	return nil
}

// MovedPeerURL is the peer URL of this machine's member after the move.
func (i Intent) MovedPeerURL() string { return i.Replace(i.Member.PeerURL) }
