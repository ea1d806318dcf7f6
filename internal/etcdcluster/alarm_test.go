package etcdcluster

import (
	"errors"
	"slices"
	"testing"

	"kubeadm/internal/state"
)

func TestSplitAlarms(t *testing.T) {
	h := Health{Members: []state.Member{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "c"}},
		Healthy: map[uint64]state.MemberStatus{}, Unhealthy: map[uint64]error{
			1: ReportedProblems("memberID:2 alarm:NOSPACE "),
			2: ReportedProblems("etcdserver: no leader; memberID:2  alarm:NOSPACE"),
			3: errors.New("connection refused")},
		Answered: map[uint64]state.MemberStatus{1: {AppliedIndex: 7, Problems: []string{"memberID:2 alarm:NOSPACE "}}}}
	got, alarms := h.SplitAlarms()
	if !slices.Equal(alarms, []Alarm{{Member: 2, Kind: NoSpace}}) {
		t.Errorf("alarms %v", alarms)
	}
	if s, ok := got.Healthy[1]; !ok || s.AppliedIndex != 7 || len(s.Problems) > 0 {
		t.Errorf("status %+v", s)
	}
	if len(got.Unhealthy) != 2 || got.Unhealthy[2].Error() != "etcdserver: no leader" {
		t.Errorf("unhealthy %v", got.Unhealthy)
	}
	if len(h.Unhealthy) != 3 {
		t.Error("the health was changed")
	}
}

func TestCheckRemoval(t *testing.T) {
	refused := errors.New("connection refused")
	alarm := ReportedProblems("memberID:1 alarm:CORRUPT ")
	members := func(count int) (all []state.Member) {
		for id := range count {
			all = append(all, state.Member{ID: uint64(id + 1)})
		}
		return all
	}
	for name, c := range map[string]struct {
		count     int
		unhealthy map[uint64]error
		remove    state.Member
		allowed   bool
	}{
		"the only member":                  {1, nil, state.Member{ID: 1}, false},
		"one of two":                       {2, nil, state.Member{ID: 2}, true},
		"the lost one of three":            {3, map[uint64]error{3: refused}, state.Member{ID: 3}, true},
		"a healthy one beside a lost one":  {3, map[uint64]error{3: refused}, state.Member{ID: 2}, false},
		"a lost one of two: no quorum now": {2, map[uint64]error{2: refused}, state.Member{ID: 2}, false},
		"a corrupt one":                    {3, map[uint64]error{1: alarm, 2: alarm, 3: alarm}, state.Member{ID: 1}, true},
		"a learner":                        {1, nil, state.Member{ID: 2, Learner: true}, true},
	} {
		h := Health{Members: members(c.count), Unhealthy: c.unhealthy}
		if err := h.CheckRemoval(c.remove); (err == nil) != c.allowed {
			t.Errorf("%s: %v", name, err)
		}
	}
}
