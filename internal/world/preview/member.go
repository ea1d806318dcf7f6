package preview

import (
	"context"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Members lists the etcd members that there would be. Whoever's certificate was only "written" cannot
// ask etcd, and sees what this preview did to the members alone.
func (w *World) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	if w.has(membersRead) || w.has(change.FileTarget(via.CertFile)) {
		return w.over.Members(ctx, via)
	}
	return w.World.Members(ctx, via)
}

// MemberStatus asks a member that is there, and believes one well that would come by this run.
func (w *World) MemberStatus(ctx context.Context, via state.Etcd, m state.Member) (state.MemberStatus, error) {
	if w.has(change.SetMember{PeerURL: slices.Concat(m.PeerURLs, []string{""})[0]}.Target()) {
		return w.over.MemberStatus(ctx, via, m)
	}
	return w.World.MemberStatus(ctx, via, m)
}
