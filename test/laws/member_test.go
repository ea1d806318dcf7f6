package laws

import (
	"strings"
	"testing"

	"kubeadm/internal/engine"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
)

const ownPeerURL = "https://192.0.2.30:2380"

// joinReplacing is the join of a control plane with --replace-member.
func joinReplacing(names ...string) subject {
	s := findSubject("join a control plane")
	s.setUp = func(t testing.TB, e *engine.Env) error {
		err := setUpControlPlaneJoin(t, e)
		e.Local.Discovery.ReplaceMembers = names
		return err
	}
	return s
}

// newMachineWithMember is a machine beside an etcd with three members: cp1, cp9 and the given one,
// which may be unreachable.
func newMachineWithMember(t testing.TB, one state.Member, silent bool) *fake.World {
	t.Helper()
	w := newControlPlaneMachine(t)
	w.MemberList = append(w.MemberList,
		state.Member{ID: 2, Name: "cp9", PeerURLs: []string{"https://192.0.2.90:2380"},
			ClientURLs: []string{"https://192.0.2.90:2379"}}, one)
	if silent {
		w.UnreachableMembers = append(w.UnreachableMembers, one.ID)
	}
	return w
}

func memberAt(ip, name string) state.Member {
	return state.Member{ID: 7, Name: name, PeerURLs: []string{"https://" + ip + ":2380"},
		ClientURLs: []string{"https://" + ip + ":2379"}}
}

func asLearner(m state.Member) state.Member {
	m.Learner = true
	return m
}

// checkRefused checks that a join fails with all of the words and does not change etcd's members.
func checkRefused(t *testing.T, r run, words ...string) {
	t.Helper()
	before := len(r.machine.MemberList)
	err := r.execute(t).err
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %v", word, err)
		}
	}
	if len(r.machine.MemberList) != before {
		t.Errorf("the members are now %v", r.machine.MemberList)
	}
}

func TestDeadMemberIsReplacedWithConsent(t *testing.T) {
	for name, old := range map[string]state.Member{
		"the same name":             memberAt("192.0.2.31", "cp2"),
		"the same address":          memberAt("192.0.2.30", "cp7"),
		"the same name and address": memberAt("192.0.2.30", "cp2"),
	} {
		t.Run(name, func(t *testing.T) {
			checkRefused(t, findSubject("join a control plane").newRun(newMachineWithMember(t, old,
				true)), old.PeerURLs[0], "does not answer")
			r := joinReplacing(old.Name).newRun(newMachineWithMember(t, old, true))
			r.mustSucceed(t)
			if got := r.machine.MemberList; len(got) != 3 || got[2].ID == old.ID ||
				got[2].PeerURLs[0] != ownPeerURL || got[2].Learner {
				t.Errorf("the members are %v", got)
			}
		})
	}
}

func TestMemberReplacementResumes(t *testing.T) {
	dead := func() *fake.World {
		return newMachineWithMember(t, memberAt("192.0.2.31", "cp2"), true)
	}
	whole := joinReplacing("cp2").newRun(dead()).mustSucceed(t)
	for nth := range whole.did {
		for _, silent := range []bool{false, true} {
			r := joinReplacing("cp2").newRun(dead())
			r.fault = &fault.World{At: nth, After: true, Crash: true}
			r.execute(t)
			made := r.machine.MemberList[len(r.machine.MemberList)-1]
			if made.PeerURLs[0] == ownPeerURL && silent {
				// as one that was just started, or is unreachable
				r.machine.UnreachableMembers = append(r.machine.UnreachableMembers, made.ID)
				r.machine.Pods = append(r.machine.Pods,
					state.Sandbox{Name: "etcd-cp2", Namespace: "kube-system", Component: "etcd"})
			}
			r = r.rerun()
			r.mustSucceed(t)
			if last := r.machine.MemberList[len(
				r.machine.MemberList)-1]; made.PeerURLs[0] == ownPeerURL && last.ID != made.ID {
				t.Errorf("after change %d: this machine's member %v was replaced by %v", nth, made,
					last)
			}
		}
	}
}

func TestHealthyMemberIsNeverReplaced(t *testing.T) {
	for name, of := range map[string]state.Member{
		"a voter of this name":      memberAt("192.0.2.31", "cp2"),
		"a learner of this name":    asLearner(memberAt("192.0.2.31", "cp2")),
		"a voter at this address":   memberAt("192.0.2.30", "cp7"),
		"a learner at this address": asLearner(memberAt("192.0.2.30", "cp7")),
		"another":                   memberAt("192.0.2.31", "cp7"),
	} {
		t.Run(name, func(t *testing.T) {
			checkRefused(t, joinReplacing(of.Name).newRun(newMachineWithMember(t, of, false)),
				"is reachable")
		})
	}
	t.Run("a learner of this name that has not started", func(t *testing.T) {
		checkRefused(t, findSubject("join a control plane").newRun(newMachineWithMember(t,
			asLearner(memberAt("192.0.2.31", "cp2")), true)), "does not answer")
	})
}

func TestLearnerWithoutDataIsReplaced(t *testing.T) {
	r := findSubject("join a control plane").newRun(newMachineWithMember(t,
		asLearner(memberAt("192.0.2.30", "cp2")), true))
	r.mustSucceed(t)
	if got := r.machine.MemberList; len(got) != 3 || got[2].ID == 7 || got[2].Learner {
		t.Errorf("the members are %v", got)
	}
}

func TestDataOfRemovedMemberIsRefused(t *testing.T) {
	r := findSubject("join a control plane").newRun(newControlPlaneMachine(t))
	r.mustSucceed(t)
	r.machine.MemberList = r.machine.MemberList[:1]
	checkRefused(t, r.rerun(),
		"/var/lib/etcd contains the data of a member that was removed from etcd")
	if _, err := r.machine.Stat(t.Context(), "/var/lib/etcd/member"); err != nil {
		t.Error(err)
	}
}

func TestReplacementThatLosesQuorumIsRefused(t *testing.T) {
	w := newMachineWithMember(t, memberAt("192.0.2.31", "cp7"), true)
	w.UnreachableMembers = append(w.UnreachableMembers, 2)
	checkRefused(t, joinReplacing("cp7").newRun(w), "etcd")
}
