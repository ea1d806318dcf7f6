package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// unready is an etcd that answers only after a few requests.
type unready struct {
	*fake.World
	failures int
	why      error
}

func (u *unready) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	if u.failures--; u.failures >= 0 {
		return nil, fmt.Errorf("listing etcd members: %w", u.why)
	}
	return u.World.Members(ctx, via)
}

// Await reads from unready and not from the World in it.
func (u *unready) Await(ctx context.Context, c world.Condition) error {
	return world.Poll(ctx, u, c)
}

func TestCheckMembersRetries(t *testing.T) {
	for name, c := range map[string]struct {
		why     error
		answers bool
	}{
		"while etcd elects a leader": {errors.New("no leader"), true},
		"not without certificates":   {fs.ErrNotExist, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &unready{World: fake.New(), failures: 3, why: c.why}
			d.MemberList = []state.Member{{ID: 1, Name: "cp1"}}
			e := engine.New(engine.Env{World: d, Emit: func(engine.Event) {}})
			n := &node.Node{}
			n.Timeouts.EtcdAPI = time.Minute
			members, err := checkMembers(t.Context(), e, n, state.Etcd{},
				etcdcluster.CheckHealth)
			if c.answers && (err != nil || len(members.Members) != 1) {
				t.Errorf("%+v: %v", members, err)
			}
			if !c.answers && (!errors.Is(err, c.why) || d.failures != 1) {
				t.Errorf("after %d more looks: %v", d.failures, err)
			}
		})
	}
}
