package etcd

import (
	"context"
	"errors"
	"sync"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/health"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// promoteLearner promotes this machine's learner to a voter as soon as it has caught up. The error wraps
// health.ErrLearnerRemoved if etcd does not have it any more.
func promoteLearner(ctx context.Context, e *engine.Env, n *node.Node, via state.Etcd) error {
	begun, restarted := e.World.Now(), false
	for {
		err := waitForLearner(ctx, e, n, via, &restarted)
		if errors.Is(err, health.ErrLearnerRemoved) {
			return err
		}
		if err != nil {
			return health.WithComponentHints(n, err)
		}
		err = e.Do(ctx, change.SetMember{PeerURL: n.PeerURL(), State: change.Voter, Via: via})
		if !errors.Is(err, change.ErrLearnerNotReady) {
			return err
		}
		if e.World.Now().Sub(begun) > n.Timeouts.EtcdAPI {
			return health.WithComponentHints(n, err)
		}
		e.Say("etcd learner %s has not caught up yet", n.Name)
	}
}

// proposalDuration is the longest time from a member's manifest to its publish request.
const proposalDuration = 15 * time.Second

// waitForLearner waits until the learner serves clients and may be promoted. It restarts a learner
// that has not published itself, once: without a vote, that does not affect the other members.
//
// It sends etcd proposals while the learner starts. etcd sends the learner a snapshot at the next
// applied entry. If that is the learner's own publish request, the learner does not see it, and
// serves no clients until it repeats the request after seven seconds (docs/decisions/0019).
func waitForLearner(ctx context.Context, e *engine.Env, n *node.Node, via state.Etcd,
	restarted *bool) error {
	wait := func() error {
		files := health.ExceptManifests(n, manifest.Components()...)
		return health.WaitCheckingFiles(ctx, e, n, files, func() error {
			limited, stop := context.WithTimeout(ctx, proposalDuration)
			var done sync.WaitGroup
			// the wait reports the errors of etcd
			done.Go(func() { _ = e.World.KeepProposing(limited, via) })
			defer done.Wait()
			defer stop()
			return e.Await(ctx, health.EtcdLearner(n, via, *restarted))
		})
	}
	err := wait()
	if *restarted || !errors.Is(err, health.ErrLearnerNotPublished) {
		return err
	}
	*restarted = true
	e.Say("restarting etcd member %s, because it has caught up, but does not serve clients yet", n.Name)
	if err := e.Do(ctx, change.RemoveContainers{Socket: n.CRISocket,
		Component: manifest.Etcd, KeepPod: true}); err != nil {
		return err
	}
	return wait()
}
