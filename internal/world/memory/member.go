package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Members lists the etcd members, if there is one that answers, and enough for a list that is not stale.
func (w *World) Members(_ context.Context, via state.Etcd) ([]state.Member, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.answers(via); err != nil {
		return nil, fmt.Errorf("listing etcd members: %w", err)
	}
	return slices.Clone(w.MemberList), nil
}

// answers is an error if all endpoints are those of silent members, or too many of all members are silent.
func (w *World) answers(via state.Etcd) error {
	deaf := func(url string) bool {
		return slices.ContainsFunc(w.MemberList, func(m state.Member) bool {
			return slices.Contains(m.ClientURLs, url) && slices.Contains(w.Silent, m.ID)
		})
	}
	if len(via.Endpoints) > 0 && !slices.ContainsFunc(via.Endpoints, func(url string) bool { return !deaf(url) }) {
		return fmt.Errorf("at %s: connection refused", via.Endpoints)
	}
	if !via.Stale && !w.quorum(0) {
		return errors.New("etcd has no leader")
	}
	return nil
}

// quorum tells whether enough voters answer, were there not the one with that ID.
func (w *World) quorum(without uint64) bool {
	voters, up := 0, 0
	for _, m := range w.MemberList {
		if m.Learner || m.ID == without {
			continue
		}
		voters++
		if !slices.Contains(w.Silent, m.ID) {
			up++
		}
	}
	return voters == 0 || up > voters/2
}

// MemberStatus says that the member is well, unless it is among Silent.
func (w *World) MemberStatus(_ context.Context, _ state.Etcd, m state.Member) (state.MemberStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.Silent, m.ID) {
		return state.MemberStatus{}, fmt.Errorf("asking etcd member %s: connection refused", m.Name)
	}
	return state.MemberStatus{Index: 1}, nil
}

// Agree is over at once.
func (w *World) Agree(context.Context, state.Etcd) error { return nil }

func (w *World) setMember(c change.SetMember) error {
	if err := w.answers(c.Via); err != nil {
		return err
	}
	at := slices.IndexFunc(w.MemberList, func(m state.Member) bool { return slices.Contains(m.PeerURLs, c.PeerURL) })
	switch {
	case c.State == change.Absent && at >= 0 && !w.dispensable(w.MemberList[at]):
		return change.ErrQuorum
	case c.State == change.Absent && at >= 0:
		w.MemberList = slices.Delete(w.MemberList, at, at+1)
	case c.State == change.Absent:
	case at >= 0:
		w.MemberList[at].Learner = w.MemberList[at].Learner && c.State == change.Learner
	case c.State == change.Voter:
		return fmt.Errorf("etcd has no member at %s to promote", c.PeerURL)
	case slices.ContainsFunc(w.MemberList, func(m state.Member) bool { return m.Learner }):
		return change.ErrNotItsTurn
	default:
		m := state.Member{ID: w.nextID(), PeerURLs: []string{c.PeerURL}, Learner: c.State == change.Learner}
		w.MemberList = append(w.MemberList, m)
	}
	return nil
}

// dispensable tells whether etcd lets the member go: one that is down anyway, or that the others can do without.
func (w *World) dispensable(m state.Member) bool {
	return m.Learner || slices.Contains(w.Silent, m.ID) || w.quorum(m.ID)
}

// nextID is one that no member has had, as far as is known.
func (w *World) nextID() uint64 {
	for _, m := range w.MemberList {
		w.born = max(w.born, m.ID)
	}
	w.born++
	return w.born
}
