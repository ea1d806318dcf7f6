package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
	"kubeadm/internal/world/fake"
)

// electing is an etcd that elects a leader at every second request.
type electing struct {
	*fake.World
	asked int
}

func (w *electing) Members(ctx context.Context, via state.Etcd) ([]state.Member, error) {
	if w.asked++; w.asked%2 == 0 {
		return nil, errors.New("no leader")
	}
	return w.World.Members(ctx, via)
}

func (w *electing) Await(ctx context.Context, c world.Condition) error {
	return world.Poll(ctx, w, c)
}

func TestAddLearnerDuringElection(t *testing.T) {
	w := &electing{World: fake.New()}
	w.MemberList = []state.Member{{ID: 1, Name: "cp1",
		PeerURLs: []string{"https://192.0.2.1:2380"}}}
	n := &node.Node{Local: node.Local{Name: "cp2", Address: "192.0.2.2"}}
	n.Timeouts.EtcdAPI = time.Minute
	e := engine.New(engine.Env{World: w, Local: n.Local, Emit: func(engine.Event) {}})
	if err := addLearner(t.Context(), e, n, state.Etcd{}, replaceMemberHint); err != nil {
		t.Fatal(err)
	}
	if len(w.MemberList) != 2 || !w.MemberList[1].Learner {
		t.Errorf("the members are %+v", w.MemberList)
	}
}
