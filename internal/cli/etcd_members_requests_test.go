package cli

import (
	"context"
	"maps"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// etcdRequests counts requests to etcd, and lists of the API server.
type etcdRequests struct {
	world.World
	mu     sync.Mutex
	counts map[string]int
}

func (w *etcdRequests) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *etcdRequests) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	w.count("list members")
	return w.World.Members(ctx, via)
}

func (w *etcdRequests) MemberStatus(ctx context.Context, via state.Etcd, m state.Member) (state.MemberStatus, error) {
	w.count("read status")
	return w.World.MemberStatus(ctx, via, m)
}

func (w *etcdRequests) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	w.count("list " + q.GVK.Kind)
	return w.World.List(ctx, q)
}

func (w *etcdRequests) Do(ctx context.Context, c change.Change) error {
	if _, ok := c.(change.SetMember); ok {
		w.count("change members")
	}
	return w.World.Do(ctx, c)
}

func (w *etcdRequests) Await(ctx context.Context, c world.Condition) error {
	check := c.Check
	c.Check = func(ctx context.Context, _ state.Reader) error { return check(ctx, w) }
	return w.World.Await(ctx, c)
}

// Of three members, one of which is lost, each is asked as often as the command needs its answer: a member that does not answer
// costs a time limit at each.
func TestRequestsOfMemberCommands(t *testing.T) {
	for command, want := range map[string]map[string]int{
		// one list, and one of each member that answers, as they may differ
		"list": {"list members": 3, "read status": 3, "list Pod": 1},
		// the statuses before and after the command has the lock of the cluster, which lists the control plane nodes
		"remove": {"list members": 3, "read status": 6, "change members": 1, "list Node": 1, "list EndpointSlice": 1},
	} {
		t.Run(command, func(t *testing.T) {
			m := newEtcdNodeOfThree(t)
			counted := &etcdRequests{World: m.world, counts: map[string]int{}}
			m.Host.World = func() world.World { return counted }
			args := []string{"etcd", "members"}
			if command == "remove" {
				args = append(args, "remove", "cp3")
			}
			if err := m.run(t.Context(), args...); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(counted.counts, want) {
				t.Errorf("it sends %v, want %v", counted.counts, want)
			}
		})
	}
}
