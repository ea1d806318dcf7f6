package etcdcluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// CheckQuorum returns an error if fewer voting members are healthy than a quorum needs. Members
// whose IDs are in removed do not count.
func (h Health) CheckQuorum(removed ...uint64) error {
	var voters, healthy int
	var causes []error
	for _, m := range h.Members {
		if m.Learner || slices.Contains(removed, m.ID) {
			continue
		}
		voters++
		if err := h.Unhealthy[m.ID]; err != nil {
			causes = append(causes, err)
			continue
		}
		healthy++
	}
	if voters == 0 {
		return errors.New("no voting etcd member is left")
	}
	if needed := voters/2 + 1; healthy < needed {
		return fmt.Errorf("%d of %d voting etcd members are healthy, and a quorum needs %d: %w",
			healthy, voters, needed, errors.Join(causes...))
	}
	return nil
}

// HasAnsweringQuorum reports whether enough voting members for a quorum answer, healthy or not.
// While etcd elects a leader, its members answer that there is no leader; after the loss of the
// quorum, too many do not answer at all.
func (h Health) HasAnsweringQuorum() bool {
	var voters, answering int
	for _, m := range h.Members {
		if m.Learner {
			continue
		}
		voters++
		err := h.Unhealthy[m.ID]
		if _, answers := errors.AsType[ReportedProblems](err); answers || err == nil {
			answering++
		}
	}
	return answering > voters/2
}

// CheckRemoval returns an error if etcd has no quorum now, or would have none without the member.
// Members that have raised an alarm count as healthy: etcd accepts changes of its members then.
func (h Health) CheckRemoval(m state.Member) error {
	h, _ = h.SplitAlarms()
	if m.Learner {
		return h.CheckQuorum()
	}
	return errors.Join(h.CheckQuorum(), h.CheckQuorum(m.ID))
}

// CheckRestart returns an error if etcd has no quorum now, or would have none while a member restarts. With one or two voters
// it has none then in any case, which is no error; and a single one is not asked, as it may have another address now.
func (h Health) CheckRestart(own uint64) error {
	if len(h.Members) == 1 {
		return nil
	}
	if err := h.CheckQuorum(); err != nil {
		return fmt.Errorf("etcd has no quorum: %w", err)
	}
	var voters int
	for _, m := range h.Members {
		if !m.Learner {
			voters++
		}
	}
	var down []string
	for _, m := range h.UnhealthyVoters() {
		if m.ID != own {
			down = append(down, untrusted.Line(MemberName(m)))
		}
	}
	if voters > 2 && len(down)+1 > (voters-1)/2 {
		return fmt.Errorf("etcd would lose its quorum while the member of this node restarts; unhealthy members: %d of %d (%s)",
			len(down), voters, strings.Join(down, ", "))
	}
	return nil
}
