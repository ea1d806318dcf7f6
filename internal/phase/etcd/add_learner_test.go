package etcd

import (
	"context"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// checkEachMinute checks the slot once a minute; silent has the IDs of the members that do not
// answer each time.
func checkEachMinute(ctx context.Context, slot *learnerSlot, w *fake.World,
	silent ...[]uint64) (err error) {
	condition, now := slot.isFree(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.Clock = func() time.Time { return now }
	for _, w.UnreachableMembers = range silent {
		now = now.Add(time.Minute)
		if err = condition.Check(ctx, w); err == nil || world.IsPermanent(err) {
			return err
		}
	}
	return err
}

func TestLearnerSlot(t *testing.T) {
	all, none := []uint64{1, 2, 3}, []uint64{}
	for name, c := range map[string]struct {
		learner, rejected bool
		silent            [][]uint64
		givesUp, free     bool
	}{
		"no learner": {silent: [][]uint64{none}, free: true},
		"other learner makes no progress, gives up": {learner: true,
			silent: [][]uint64{none, none, none}, givesUp: true},
		"other learner, short": {learner: true,
			silent: [][]uint64{none, none}},
		"etcd does not answer for long, gives up": {silent: [][]uint64{all, all, all},
			givesUp: true},
		"etcd answers in between": {learner: true,
			silent: [][]uint64{all, none, all}},
		"rejected, a voter stays unreachable, gives up": {rejected: true,
			silent: [][]uint64{{3}, {3}}, givesUp: true},
		"rejected, voters are unreachable in turn": {rejected: true,
			silent: [][]uint64{{3}, {2}, {3}}},
		"not rejected, a voter is unreachable": {silent: [][]uint64{{3}}, free: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			for id, ip := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"} {
				w.MemberList = append(w.MemberList,
					state.Member{ID: uint64(id + 1), Name: ip,
						PeerURLs: []string{"https://" + ip + ":2380"}, Learner: id == 3})
			}
			if !c.learner {
				w.MemberList = w.MemberList[:3]
			}
			n := &node.Node{Local: node.Local{Name: "cp5", Address: "192.0.2.5"}}
			n.Timeouts.EtcdAPI = 2 * time.Minute
			err := checkEachMinute(t.Context(),
				&learnerSlot{n: n, rejected: c.rejected, lostHint: replaceMemberHint,
					unreachableSince: map[uint64]time.Time{}},
				w, c.silent...)
			if (err == nil) != c.free || world.IsPermanent(err) != c.givesUp {
				t.Errorf("%v; gives up: %v", err, world.IsPermanent(err))
			}
		})
	}
}

// What a rejoin names to do about another member are commands that work for it.
func TestRejoinHints(t *testing.T) {
	for name, rejected := range map[string]bool{"another learner": false, "a lost voter": true} {
		w := fake.New()
		w.MemberList = []state.Member{{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.1:2380"},
			Learner: !rejected}}
		n := &node.Node{Local: node.Local{Name: "cp5", Address: "192.0.2.5"}}
		n.Timeouts.EtcdAPI = 2 * time.Minute
		silent := []uint64{}
		if rejected {
			w.MemberList = append(w.MemberList, state.Member{ID: 2, Name: "cp2"}, state.Member{ID: 3, Name: "cp3"})
			silent = []uint64{1}
		}
		err := checkEachMinute(t.Context(), &learnerSlot{n: n, rejected: rejected, lostHint: removeMemberHint,
			unreachableSince: map[uint64]time.Time{}}, w, silent, silent, silent)
		hints := strings.Join(problem.Hints(err), "\n")
		if !strings.Contains(hints, ": kubeadm etcd members remove cp1") || strings.Contains(hints, "--replace-member") {
			t.Errorf("%s: %v, %q", name, err, hints)
		}
	}
}

// busy is an etcd that commits entries all the time, which the learner applies too.
type busy struct {
	*fake.World
	committed uint64
	lag       uint64 // of the learner; one less at each check
}

func (b *busy) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	b.committed += 10
	b.lag = max(b.lag, 1) - 1
	return b.World.Members(ctx, via)
}

func (b *busy) MemberStatus(_ context.Context, _ state.Etcd,
	m state.Member) (state.MemberStatus, error) {
	if m.Learner {
		return state.MemberStatus{AppliedIndex: b.committed - b.committed*b.lag/10}, nil
	}
	return state.MemberStatus{AppliedIndex: b.committed}, nil
}

func TestLearnerThatHasCaughtUpMakesNoProgress(t *testing.T) {
	for lag, looks := range map[uint64]int{0: 3, 5: 6} {
		b, now := &busy{World: fake.New(), committed: 1000, lag: lag},
			time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		b.Clock = func() time.Time { return now }
		b.MemberList = []state.Member{
			{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.1:2380"}},
			{ID: 2, Name: "cp2", PeerURLs: []string{"https://192.0.2.2:2380"}, Learner: true},
		}
		n := &node.Node{Local: node.Local{Name: "cp5", Address: "192.0.2.5"}}
		n.Timeouts.EtcdAPI = 2 * time.Minute
		condition := (&learnerSlot{n: n, lostHint: replaceMemberHint}).isFree()
		for look := 1; ; look++ {
			err := condition.Check(t.Context(), b)
			if world.IsPermanent(err) != (look >= looks) {
				t.Fatalf("%d tenths behind at first, look %d: %v; gives up: %v", lag, look, err,
					world.IsPermanent(err))
			}
			if look == looks {
				break
			}
			now = now.Add(time.Minute)
		}
	}
}
