package health

import (
	"context"
	"errors"
	"testing"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// cluster is an etcd of one voter and one learner, whose machine it is.
type cluster struct {
	runtime
	name     string // of the learner, once the voter has heard it
	index    uint64 // what the learner knows
	answer   error  // of the learner, to clients
	health   int
	problems []string
}

func (c *cluster) Members(context.Context, state.Etcd) ([]state.Member, error) {
	return []state.Member{
		{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.1:2380"}},
		{ID: 2, Name: c.name, PeerURLs: []string{"https://192.0.2.2:2380"}, Learner: true},
	}, nil
}

func (c *cluster) MemberStatus(_ context.Context, _ state.Etcd, m state.Member) (state.MemberStatus, error) {
	if m.ID == 1 {
		return state.MemberStatus{Index: 1000}, nil
	}
	return state.MemberStatus{Index: c.index, Problems: c.problems}, c.answer
}

func (c *cluster) Fetch(context.Context, state.Request) (state.Response, error) {
	return state.Response{Status: c.health}, nil
}

func TestAMemberIsWaitedFor(t *testing.T) {
	const known, all = "cp2", 1000
	mute := errors.New("it hangs up")
	for name, c := range map[string]struct {
		given               cluster
		anew                bool
		well, unheard, ends bool
	}{
		"serves":                        {given: cluster{name: known, index: all}, well: true},
		"serves, one tenth behind":      {given: cluster{name: known, index: 900}, well: true},
		"serves, far behind":            {given: cluster{name: known, index: 899}},
		"serves, and is not well":       {given: cluster{name: known, index: all, problems: []string{"no space"}, health: 200}},
		"was not heard of":              {given: cluster{answer: mute, health: 200}},
		"gets its data":                 {given: cluster{name: known, answer: mute, health: 503}},
		"has its data, serves nobody":   {given: cluster{name: known, answer: mute, health: 200}, unheard: true, ends: true},
		"started anew, serves nobody":   {given: cluster{name: known, answer: mute, health: 200}, anew: true, unheard: true},
		"started anew, serves":          {given: cluster{name: known, index: all}, anew: true, well: true},
		"started anew, gets its data":   {given: cluster{name: known, answer: mute, health: 503}, anew: true},
		"started anew, and far behind":  {given: cluster{name: known, index: 1}, anew: true},
		"started anew, not heard of it": {given: cluster{answer: mute, health: 200}, anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node.Node{Local: node.Local{Name: known, Address: "192.0.2.2"}}
			wait, r := EtcdMember(n, state.Etcd{}, c.anew), &c.given
			r.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			err := wait.Check(t.Context(), r)
			if world.Hopeless(err) {
				t.Errorf("gives up at once: %v", err)
			}
			r.now = r.now.Add(unheardFor)
			err = wait.Check(t.Context(), r)
			if (err == nil) != c.well || errors.Is(err, ErrUnheard) != c.unheard || world.Hopeless(err) != c.ends {
				t.Errorf("%v; gives up: %v", err, world.Hopeless(err))
			}
		})
	}
}

func TestAMemberThatWasReadyIsGivenItsTimeAgain(t *testing.T) {
	n := &node.Node{Local: node.Local{Name: "cp2", Address: "192.0.2.2"}}
	r := &cluster{name: "cp2", answer: errors.New("it hangs up")}
	r.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	wait := EtcdMember(n, state.Etcd{}, false)
	for _, r.health = range []int{200, 503, 200} {
		r.now = r.now.Add(unheardFor)
		if err := wait.Check(t.Context(), r); err == nil || world.Hopeless(err) {
			t.Errorf("health %d: %v", r.health, err)
		}
	}
}
