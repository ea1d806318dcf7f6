package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// Members lists the etcd members, if one of the endpoints answers, and if there is a quorum or the
// read is serializable.
func (w *World) Members(_ context.Context, via state.Etcd) ([]state.Member, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkReachable(via); err != nil {
		return nil, fmt.Errorf("listing etcd members: %w", err)
	}
	for _, m := range w.MemberList {
		if list, ok := w.OwnLists[m.ID]; ok && via.Serializable && slices.Equal(via.Endpoints, m.ClientURLs) {
			return slices.Clone(list), nil
		}
	}
	return slices.Clone(w.MemberList), nil
}

// checkReachable returns an error if no endpoint answers, or if there is no quorum.
func (w *World) checkReachable(via state.Etcd) error {
	answers := func(url string) bool {
		return !slices.ContainsFunc(w.MemberList, func(m state.Member) bool {
			return slices.Contains(m.ClientURLs, url) && slices.Contains(w.UnreachableMembers, m.ID)
		})
	}
	answersPeer := via.Serializable && slices.ContainsFunc(w.MemberList, func(m state.Member) bool {
		return slices.Contains(m.PeerURLs, via.Peer) && slices.Contains(w.PeersOnly, m.ID)
	})
	if len(via.Endpoints) > 0 && !slices.ContainsFunc(via.Endpoints, answers) && !answersPeer {
		return fmt.Errorf("at %s: connection refused", via.Endpoints)
	}
	if !via.Serializable && !w.hasQuorumWithout(0) {
		return errors.New("etcd has no leader")
	}
	return nil
}

// hasQuorumWithout reports whether there is a quorum after the removal of the member with that ID;
// 0 for none.
func (w *World) hasQuorumWithout(removed uint64) bool {
	voters, answering := 0, 0
	for _, m := range w.MemberList {
		if m.Learner || m.ID == removed {
			continue
		}
		voters++
		if !slices.Contains(w.UnreachableMembers, m.ID) {
			answering++
		}
	}
	return voters == 0 || answering > voters/2
}

// MemberStatus reports that the member is healthy, unless it is configured not to answer.
func (w *World) MemberStatus(_ context.Context, _ state.Etcd,
	m state.Member) (state.MemberStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, listed := range w.MemberList {
		if m.ID == 0 && slices.ContainsFunc(m.ClientURLs, func(url string) bool { return slices.Contains(listed.ClientURLs, url) }) {
			m = listed
		}
	}
	if m.ID == 0 || slices.Contains(w.UnreachableMembers, m.ID) {
		return state.MemberStatus{}, fmt.Errorf("getting the status of etcd member %s: connection refused", m.Name)
	}
	status := w.memberStatus(m.ID)
	status.ID = m.ID
	status.Problems = slices.Concat(status.Problems, w.MemberProblems)
	return status, nil
}

func (w *World) memberStatus(id uint64) state.MemberStatus {
	if status, ok := w.MemberStatuses[id]; ok {
		return status
	}
	status := state.MemberStatus{AppliedIndex: 1, CommittedIndex: 1, Revision: 1, Version: "3.7.0",
		DBSize: 4 << 20, DBInUse: 4<<20 - 4096, DBQuota: 2 << 30}
	if len(w.MemberList) > 0 {
		status.Leader = w.MemberList[0].ID
	}
	return status
}

// changeSpace compacts, which frees half of what is in use unless there is no history, defragments, or
// disarms an alarm.
func (w *World) changeSpace(c change.Change) {
	set := func(id uint64, change func(*state.MemberStatus)) {
		if w.MemberStatuses == nil {
			w.MemberStatuses = map[uint64]state.MemberStatus{}
		}
		status := w.memberStatus(id)
		change(&status)
		w.MemberStatuses[id] = status
	}
	switch c := c.(type) {
	case change.CompactHistory:
		for _, m := range w.MemberList {
			if !w.NoHistory {
				set(m.ID, func(s *state.MemberStatus) { s.DBInUse /= 2 })
			}
		}
	case change.Defragment:
		set(c.Member.ID, func(s *state.MemberStatus) { s.DBSize = s.DBInUse })
	case change.DisarmAlarm:
		w.MemberProblems = slices.DeleteFunc(slices.Clone(w.MemberProblems), func(text string) bool {
			return strings.TrimSpace(text) == fmt.Sprintf("memberID:%d alarm:%s", c.Member, c.Kind)
		})
	}
}

// KeepProposing does nothing.
func (w *World) KeepProposing(context.Context, state.Etcd) error { return nil }

func (w *World) changeEtcd(ctx context.Context, c change.Change) error {
	switch c := c.(type) {
	case change.SetMember:
		return w.setMember(c)
	case change.SaveSnapshot:
		return w.saveSnapshot(c)
	case change.SaveArchive:
		return w.saveArchive(ctx, c)
	case change.RestoreSnapshot:
		return w.restoreSnapshot(c)
	}
	w.changeSpace(c)
	return nil
}

func (w *World) setMember(c change.SetMember) error {
	if err := w.checkReachable(c.Via); err != nil {
		return err
	}
	at := slices.IndexFunc(w.MemberList,
		func(m state.Member) bool { return slices.Contains(m.PeerURLs, c.PeerURL) })
	from := slices.IndexFunc(w.MemberList,
		func(m state.Member) bool { return c.From != "" && slices.Contains(m.PeerURLs, c.From) })
	switch {
	case c.State == change.Voter && from >= 0 && (at >= 0 || w.MemberList[from].Learner):
		return fmt.Errorf("the etcd member at %s cannot get the peer URL %s", c.From, c.PeerURL)
	case c.State == change.Voter && from >= 0:
		w.MemberList[from].PeerURLs = []string{c.PeerURL}
	case c.State == change.Absent && at >= 0:
		// etcd lets a learner or a member that does not answer go, whatever the quorum.
		m := w.MemberList[at]
		if !m.Learner && !slices.Contains(w.UnreachableMembers, m.ID) && !w.hasQuorumWithout(m.ID) {
			return change.ErrWouldLoseQuorum
		}
		w.MemberList = slices.Delete(w.MemberList, at, at+1)
	case c.State == change.Absent:
	case at >= 0:
		w.MemberList[at].Learner = w.MemberList[at].Learner && c.State == change.Learner
	case c.State == change.Voter:
		return fmt.Errorf("etcd has no member at %s to promote", c.PeerURL)
	case slices.ContainsFunc(w.MemberList, func(m state.Member) bool { return m.Learner }):
		return change.ErrMemberAddRefused
	default:
		for _, m := range w.MemberList {
			w.lastMemberID = max(w.lastMemberID, m.ID)
		}
		w.lastMemberID++ // no member has had this ID
		w.MemberList = append(w.MemberList, state.Member{ID: w.lastMemberID,
			PeerURLs: []string{c.PeerURL}, Learner: c.State == change.Learner})
	}
	return nil
}
