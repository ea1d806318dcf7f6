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

// cluster is an etcd with a voter and this machine's learner.
type cluster struct {
	simulatedRuntime
	name     string // of the learner, once it is published
	index    uint64 // that the learner has applied
	answer   error  // of the learner, to clients
	refuses  bool   // it answers so at once, and not only after the limit
	late     bool   // it answers from the second request on
	health   int
	problems []string
	fetched  int // requests to its health endpoint
}

func (c *cluster) Members(context.Context, state.Etcd) ([]state.Member, error) {
	return []state.Member{
		{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.1:2380"}},
		{ID: 2, Name: c.name, PeerURLs: []string{"https://192.0.2.2:2380"}, Learner: true},
	}, nil
}

func (c *cluster) MemberStatus(_ context.Context, _ state.Etcd,
	m state.Member) (state.MemberStatus, error) {
	if m.ID == 1 {
		return state.MemberStatus{AppliedIndex: 1000}, nil
	}
	if c.late {
		c.late = false
		c.now = c.now.Add(publishTimeout)
		return state.MemberStatus{}, errors.New("it hangs up")
	}
	if c.answer != nil && !c.refuses {
		c.now = c.now.Add(publishTimeout) // the longer one of the limits
	}
	return state.MemberStatus{AppliedIndex: c.index, Problems: c.problems}, c.answer
}

func (c *cluster) Fetch(context.Context, state.Request) (state.Response, error) {
	c.fetched++
	return state.Response{Status: c.health}, nil
}

// TestHealthEndpointIsAskedLast checks that a learner is asked for its health only if the other members know
// its name and it does not answer clients: a request while it gets its snapshot takes half a second.
func TestHealthEndpointIsAskedLast(t *testing.T) {
	n := &node.Node{Local: node.Local{Name: "cp2", Address: "192.0.2.2"}}
	for want, c := range []cluster{
		{answer: errors.New("it hangs up"), health: 503},
		{name: "cp2", answer: errors.New("it hangs up"), health: 503},
	} {
		_ = EtcdLearner(n, state.Etcd{}, false).Check(t.Context(), &c)
		if c.fetched != want {
			t.Errorf("learner %q: asked %d times, want %d", c.name, c.fetched, want)
		}
	}
	serves := cluster{name: "cp2", index: 1000}
	if err := EtcdLearner(n, state.Etcd{}, false).Check(t.Context(), &serves); err != nil || serves.fetched != 0 {
		t.Errorf("a learner that serves: %v, asked %d times", err, serves.fetched)
	}
}

func TestEtcdLearner(t *testing.T) {
	const published, all = "cp2", 1000
	mute := errors.New("it hangs up")
	for name, c := range map[string]struct {
		given                      cluster
		restarted                  bool
		healthy, unpublished, ends bool
	}{
		"serves": {given: cluster{name: published, index: all},
			healthy: true},
		"serves, one tenth behind": {given: cluster{name: published, index: 900},
			healthy: true},
		"serves, far behind": {given: cluster{name: published, index: 899}},
		"serves, and is not healthy": {given: cluster{name: published, index: all,
			problems: []string{"no space"}, health: 200}},
		"is not published": {given: cluster{answer: mute, health: 200}},
		"catches up": {given: cluster{name: published, answer: mute,
			health: 503}},
		"has caught up, does not serve": {given: cluster{name: published, answer: mute,
			health: 200}, unpublished: true, ends: true},
		"has caught up, refuses clients": {given: cluster{name: published, answer: mute, refuses: true,
			health: 200}, unpublished: true},
		"has caught up, serves a moment later": {given: cluster{name: published, index: all, late: true,
			health: 200}, healthy: true},
		"restarted, does not serve": {given: cluster{name: published, answer: mute, health: 200},
			restarted: true, unpublished: true},
		"restarted, serves": {given: cluster{name: published, index: all}, restarted: true,
			healthy: true},
		"restarted, catches up": {given: cluster{name: published, answer: mute, health: 503},
			restarted: true},
		"restarted, and far behind": {given: cluster{name: published, index: 1}, restarted: true},
		"restarted, not published":  {given: cluster{answer: mute, health: 200}, restarted: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node.Node{Local: node.Local{Name: published, Address: "192.0.2.2"}}
			wait, r := EtcdLearner(n, state.Etcd{}, c.restarted), &c.given
			r.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			err := wait.Check(t.Context(), r)
			if (err == nil) != c.healthy ||
				errors.Is(err, ErrLearnerNotPublished) != c.unpublished ||
				world.IsPermanent(err) != c.ends {
				t.Errorf("%v; gives up: %v", err, world.IsPermanent(err))
			}
		})
	}
}
