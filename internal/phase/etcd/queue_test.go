package etcd

import (
	"context"
	"testing"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// minutes are looks at the queue, one a minute; what is away at each says who does not answer.
func minutes(ctx context.Context, q *learnerSlot, w *fake.World, away ...[]uint64) (err error) {
	turn, now := q.isFree(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w.Clock = func() time.Time { return now }
	for _, w.Silent = range away {
		now = now.Add(time.Minute)
		if err = turn.Check(ctx, w); err == nil || world.Hopeless(err) {
			return err
		}
	}
	return err
}

func TestTheQueueIsLeft(t *testing.T) {
	all, none := []uint64{1, 2, 3}, []uint64{}
	for name, c := range map[string]struct {
		learner, refused bool
		away             [][]uint64
		givesUp, open    bool
	}{
		"when it is this machine's turn":                    {away: [][]uint64{none}, open: true},
		"when the other learner comes to no end":            {learner: true, away: [][]uint64{none, none, none}, givesUp: true},
		"not while that one has time":                       {learner: true, away: [][]uint64{none, none}},
		"when etcd is silent for long":                      {away: [][]uint64{all, all, all}, givesUp: true},
		"not when it answers in between":                    {learner: true, away: [][]uint64{all, none, all}},
		"when a voter stays away after etcd refused":        {refused: true, away: [][]uint64{{3}, {3}}, givesUp: true},
		"not for voters that are away one after another":    {refused: true, away: [][]uint64{{3}, {2}, {3}}},
		"though a voter is away while etcd has not refused": {away: [][]uint64{{3}}, open: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := fake.New()
			for id, ip := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"} {
				w.MemberList = append(w.MemberList, state.Member{ID: uint64(id + 1), Name: ip, PeerURLs: []string{"https://" + ip + ":2380"}, Learner: id == 3})
			}
			if !c.learner {
				w.MemberList = w.MemberList[:3]
			}
			n := &node.Node{Local: node.Local{Name: "cp5", Address: "192.0.2.5"}}
			n.Timeouts.EtcdAPI = 2 * time.Minute
			err := minutes(t.Context(), &learnerSlot{n: n, rejected: c.refused, unreachableSince: map[uint64]time.Time{}}, w, c.away...)
			if (err == nil) != c.open || world.Hopeless(err) != c.givesUp {
				t.Errorf("%v; gives up: %v", err, world.Hopeless(err))
			}
		})
	}
}

// busy is an etcd that goes on to decide things, all of which the learner applies too.
type busy struct {
	*fake.World
	decided uint64
	lag     uint64 // of the learner; one less at each look
}

func (b *busy) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	b.decided += 10
	b.lag = max(b.lag, 1) - 1
	return b.World.Members(ctx, via)
}

func (b *busy) MemberStatus(_ context.Context, _ state.Etcd, m state.Member) (state.MemberStatus, error) {
	if m.Learner {
		return state.MemberStatus{Index: b.decided - b.decided*b.lag/10}, nil
	}
	return state.MemberStatus{Index: b.decided}, nil
}

func TestALearnerThatOnlyFollowsMakesNoProgress(t *testing.T) {
	for lag, looks := range map[uint64]int{0: 3, 5: 6} {
		b, now := &busy{World: fake.New(), decided: 1000, lag: lag}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		b.Clock = func() time.Time { return now }
		b.MemberList = []state.Member{
			{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.1:2380"}},
			{ID: 2, Name: "cp2", PeerURLs: []string{"https://192.0.2.2:2380"}, Learner: true},
		}
		n := &node.Node{Local: node.Local{Name: "cp5", Address: "192.0.2.5"}}
		n.Timeouts.EtcdAPI = 2 * time.Minute
		turn := (&learnerSlot{n: n}).isFree()
		for look := 1; ; look++ {
			err := turn.Check(t.Context(), b)
			if world.Hopeless(err) != (look >= looks) {
				t.Fatalf("%d tenths behind at first, look %d: %v; gives up: %v", lag, look, err, world.Hopeless(err))
			}
			if look == looks {
				break
			}
			now = now.Add(time.Minute)
		}
	}
}
