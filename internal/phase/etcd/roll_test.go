package etcd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// deaf is an etcd that answers only when it was asked a few times.
type deaf struct {
	*fake.World
	looks int
	why   error
}

func (d *deaf) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	if d.looks--; d.looks >= 0 {
		return nil, fmt.Errorf("listing etcd members: %w", d.why)
	}
	return d.World.Members(ctx, via)
}

// Await asks it and not the world within.
func (d *deaf) Await(ctx context.Context, c world.Condition) error { return world.Poll(ctx, d, c) }

func TestTheRollIsCalledUntilEtcdAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		why     error
		answers bool
	}{
		"while it chooses a leader": {errors.New("no leader"), true},
		"not without certificates":  {fs.ErrNotExist, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &deaf{World: fake.New(), looks: 3, why: c.why}
			d.MemberList = []state.Member{{ID: 1, Name: "cp1"}}
			e := flow.New(flow.Env{World: d, Emit: func(flow.Event) {}})
			n := &node.Node{}
			n.Timeouts.EtcdAPI = time.Minute
			roll, err := checkMembers(t.Context(), e, n, state.Etcd{})
			if c.answers && (err != nil || len(roll.Members) != 1) {
				t.Errorf("%+v: %v", roll, err)
			}
			if !c.answers && (!errors.Is(err, c.why) || d.looks != 1) {
				t.Errorf("after %d more looks: %v", d.looks, err)
			}
		})
	}
}
