package dryrun

import (
	"context"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Members lists the etcd members that there would be. With a certificate that was only "written"
// the real etcd cannot be asked: then these are the changes of this dry run alone.
func (w *World) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	if w.has(membersRead) || w.has(change.FileTarget(via.CertFile)) {
		return w.overlay.Members(ctx, via)
	}
	return w.World.Members(ctx, via)
}

// MemberStatus asks a real member. One that this run would add counts as healthy, and so does each of
// a simulated cluster.
func (w *World) MemberStatus(ctx context.Context, via state.Etcd,
	m state.Member) (state.MemberStatus, error) {
	if w.simulatedInfo() != nil ||
		w.has(change.SetMember{PeerURL: slices.Concat(m.PeerURLs, []string{""})[0]}.Target()) {
		return w.overlay.MemberStatus(ctx, via, m)
	}
	status, err := w.World.MemberStatus(ctx, via, m)
	w.mu.Lock()
	status.Revision = max(status.Revision, w.restored)
	w.mu.Unlock()
	return status, err
}
