package laws

import (
	"strings"
	"testing"

	"kubeadm/internal/flow"
	"kubeadm/internal/state"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/fault"
)

const ownPeer = "https://192.0.2.30:2380"

// replacing is the join of a control plane whose user gives up some members of etcd.
func replacing(names ...string) subject {
	s := subjects()[2]
	s.equip = func(t testing.TB, e *flow.Env) error {
		err := equipControlPlane(t, e)
		e.Local.Join.ReplaceMembers = names
		return err
	}
	return s
}

// member is one more of etcd's, beside cp1 and a second that keeps the quorum.
func member(t testing.TB, one state.Member, silent bool) *fake.World {
	t.Helper()
	w := another(t)
	w.MemberList = append(w.MemberList, state.Member{ID: 2, Name: "cp9", PeerURLs: []string{"https://192.0.2.90:2380"}, ClientURLs: []string{"https://192.0.2.90:2379"}}, one)
	if silent {
		w.Silent = append(w.Silent, one.ID)
	}
	return w
}

func at(ip, name string) state.Member {
	return state.Member{ID: 7, Name: name, PeerURLs: []string{"https://" + ip + ":2380"}, ClientURLs: []string{"https://" + ip + ":2379"}}
}

func learner(m state.Member) state.Member {
	m.Learner = true
	return m
}

// refused is a join that must leave etcd as it is and say all of the words.
func refused(t *testing.T, r run, words ...string) {
	t.Helper()
	before := len(r.machine.MemberList)
	err := r.do(t).err
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %v", word, err)
		}
	}
	if len(r.machine.MemberList) != before {
		t.Errorf("the members are now %v", r.machine.MemberList)
	}
}

func TestADeadMemberIsReplacedWhenTheUserAgrees(t *testing.T) {
	for name, old := range map[string]state.Member{
		"the same name":             at("192.0.2.31", "cp2"),
		"the same address":          at("192.0.2.30", "cp7"),
		"the same name and address": at("192.0.2.30", "cp2"),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, subjects()[2].on(member(t, old, true)), old.PeerURLs[0], "does not answer")
			r := replacing(old.Name).on(member(t, old, true))
			r.succeed(t)
			if got := r.machine.MemberList; len(got) != 3 || got[2].ID == old.ID || got[2].PeerURLs[0] != ownPeer || got[2].Learner {
				t.Errorf("the members are %v", got)
			}
		})
	}
}

func TestAReplacementIsGoneOnWithByTheSameCommand(t *testing.T) {
	dead := func() *fake.World { return member(t, at("192.0.2.31", "cp2"), true) }
	whole := replacing("cp2").on(dead()).succeed(t)
	for nth := range whole.did {
		for _, silent := range []bool{false, true} {
			r := replacing("cp2").on(dead())
			r.fault = &fault.World{At: nth, After: true, Crash: true}
			r.do(t)
			made := r.machine.MemberList[len(r.machine.MemberList)-1]
			if made.PeerURLs[0] == ownPeer && silent {
				r.machine.Silent = append(r.machine.Silent, made.ID) // as one that was just started, or was not heard
				r.machine.Pods = append(r.machine.Pods, state.Sandbox{Name: "etcd-cp2", Namespace: "kube-system", Component: "etcd"})
			}
			r = r.again()
			r.succeed(t)
			if last := r.machine.MemberList[len(r.machine.MemberList)-1]; made.PeerURLs[0] == ownPeer && last.ID != made.ID {
				t.Errorf("after change %d: this machine's own member %v was replaced by %v", nth, made, last)
			}
		}
	}
}

func TestAMemberThatAnswersIsNeverReplaced(t *testing.T) {
	for name, of := range map[string]state.Member{
		"a voter of this name":      at("192.0.2.31", "cp2"),
		"a learner of this name":    learner(at("192.0.2.31", "cp2")),
		"a voter at this address":   at("192.0.2.30", "cp7"),
		"a learner at this address": learner(at("192.0.2.30", "cp7")),
		"another":                   at("192.0.2.31", "cp7"),
	} {
		t.Run(name, func(t *testing.T) { refused(t, replacing(of.Name).on(member(t, of, false)), "answers") })
	}
	t.Run("a learner of this name that has yet to answer", func(t *testing.T) {
		refused(t, subjects()[2].on(member(t, learner(at("192.0.2.31", "cp2")), true)), "does not answer")
	})
}

func TestALearnerAtThisAddressWithoutItsDataGivesWay(t *testing.T) {
	r := subjects()[2].on(member(t, learner(at("192.0.2.30", "cp2")), true))
	r.succeed(t)
	if got := r.machine.MemberList; len(got) != 3 || got[2].ID == 7 || got[2].Learner {
		t.Errorf("the members are %v", got)
	}
}

func TestDataOfAMemberThatWasRemovedAreNotStarted(t *testing.T) {
	r := subjects()[2].on(another(t))
	r.succeed(t)
	r.machine.MemberList = r.machine.MemberList[:1]
	refused(t, r.again(), "/var/lib/etcd holds the data of a member that was removed from etcd")
	if _, err := r.machine.Stat(t.Context(), "/var/lib/etcd/member"); err != nil {
		t.Error(err)
	}
}

func TestALossThatCostsTheQuorumIsRefused(t *testing.T) {
	w := member(t, at("192.0.2.31", "cp7"), true)
	w.Silent = append(w.Silent, 2)
	refused(t, replacing("cp7").on(w), "etcd")
}
