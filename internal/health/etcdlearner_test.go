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
	runtime
	name     string // of the learner, once it is published
	index    uint64 // that the learner has applied
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

func (c *cluster) MemberStatus(_ context.Context, _ state.Etcd,
	m state.Member) (state.MemberStatus, error) {
	if m.ID == 1 {
		return state.MemberStatus{AppliedIndex: 1000}, nil
	}
	return state.MemberStatus{AppliedIndex: c.index, Problems: c.problems}, c.answer
}

func (c *cluster) Fetch(context.Context, state.Request) (state.Response, error) {
	return state.Response{Status: c.health}, nil
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
			if world.IsPermanent(err) {
				t.Errorf("gives up at once: %v", err)
			}
			r.now = r.now.Add(publishTimeout)
			err = wait.Check(t.Context(), r)
			if (err == nil) != c.healthy ||
				errors.Is(err, ErrLearnerNotPublished) != c.unpublished ||
				world.IsPermanent(err) != c.ends {
				t.Errorf("%v; gives up: %v", err, world.IsPermanent(err))
			}
		})
	}
}

func TestEtcdLearnerPublishTimeoutRestarts(t *testing.T) {
	n := &node.Node{Local: node.Local{Name: "cp2", Address: "192.0.2.2"}}
	r := &cluster{name: "cp2", answer: errors.New("it hangs up")}
	r.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	wait := EtcdLearner(n, state.Etcd{}, false)
	for _, r.health = range []int{200, 503, 200} {
		r.now = r.now.Add(publishTimeout)
		if err := wait.Check(t.Context(), r); err == nil || world.IsPermanent(err) {
			t.Errorf("health %d: %v", r.health, err)
		}
	}
}
