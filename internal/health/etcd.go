package health

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// ErrUnheard says that an etcd member knows all that the others know, and still serves nobody: it waits to hear its own
// first words, which were lost, and would repeat them after seven seconds. It does so at once when it is started
// anew (docs/decisions/0023).
var ErrUnheard = errors.New("it knows all that the others know, and serves nobody")

// unheardFor is how long a member that knows everything may serve nobody before it is taken to be unheard.
const unheardFor = 300 * time.Millisecond

// etcdMember is the wait for this machine's etcd member, which has been announced to the others.
type etcdMember struct {
	n     *node.Node
	via   state.Etcd
	watch *crashWatch
	ready time.Time // since when it knows everything, as far as it says
	anew  bool      // it was started anew already
}

// EtcdMember holds once this machine's etcd member, which has been announced to the others, serves and knows nearly all that
// they know. Then it can be tried to let it vote. One that has to be started anew for that ends the wait with
// ErrUnheard; no longer when that was done.
func EtcdMember(n *node.Node, via state.Etcd, anew bool) world.Condition {
	m := &etcdMember{n: n, via: via, anew: anew, watch: &crashWatch{socket: n.CRISocket, component: manifest.Etcd}}
	return world.Condition{
		Name:    fmt.Sprintf("etcd member %s to run and to catch up with the others", n.Name),
		Timeout: n.Timeouts.EtcdAPI,
		Check:   m.check,
	}
}

func (m *etcdMember) check(ctx context.Context, r state.Reader) error {
	roll, err := etcdcluster.CheckHealthQuickly(ctx, r, m.via)
	if err != nil {
		return err
	}
	own := roll.At(m.n.PeerURL())
	switch {
	case own == nil:
		return world.GiveUp(errors.New("it was removed from etcd meanwhile: kubeadm reset, then join this machine again"))
	case !own.Learner:
		return nil
	case own.Name == "":
		return withCause(crashCause(ctx, r, m.watch), errors.New("it has not made itself known to the others yet"))
	}
	silent := roll.Silent[own.ID]
	if _, answers := errors.AsType[etcdcluster.ReportedProblems](silent); answers || silent == nil {
		return errors.Join(silent, roll.CaughtUp(own.ID))
	}
	return withCause(crashCause(ctx, r, m.watch), m.silent(ctx, r))
}

// silent is the error of a member that the others have heard of and that answers nobody: it does so while it gets its data,
// and longer if it is unheard.
func (m *etcdMember) silent(ctx context.Context, r state.Reader) error {
	if err := well(ctx, r, state.Request{URL: manifest.EtcdHealth(m.n), Loopback: true}); err != nil {
		m.ready = time.Time{}
		return fmt.Errorf("it does not know yet what the others know: %w", err)
	}
	if m.ready.IsZero() {
		m.ready = r.Now()
	}
	if m.anew || r.Now().Sub(m.ready) < unheardFor {
		return ErrUnheard
	}
	return world.GiveUp(ErrUnheard)
}
