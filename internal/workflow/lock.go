package workflow

import (
	"context"

	"kubeadm/internal/clusterlock"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/nodename"
	"kubeadm/internal/state"
)

// holdingLock is a phase, named like another one, that runs phases one after the other, as one step: on a
// control plane node it holds the lock of the cluster all the time.
func holdingLock(like engine.Phase, phases ...engine.Phase) engine.Phase {
	return underLock(like, "changing the configuration of the cluster", phases, func(*engine.Env) bool { return true })
}

// underLock is holdingLock for a purpose. Where the lock is not required, the phases run without it if no API server
// answers.
func underLock(like engine.Phase, purpose string, phases []engine.Phase, isRequired func(*engine.Env) bool) engine.Phase {
	return engine.Phase{Name: like.Name, Short: like.Short, Long: like.Long,
		Run: func(ctx context.Context, e *engine.Env) error {
			n, as, err := e.Cluster(ctx)
			if err != nil {
				return err
			}
			if n.Role != node.ControlPlane {
				return runInOrder(ctx, e, phases)
			}
			shared := as
			shared.Server = "" // that of the kubeconfig: often a load balancer
			name := n.Name
			if renaming, isRenamed := e.Intent.(nodename.Rename); isRenamed {
				name = renaming.Original // an interrupted run holds the lock under this name
			}
			lock := clusterlock.Lock{Node: name, Purpose: purpose, As: []state.Identity{as, shared}}
			if _, moves := e.Intent.(nodeaddress.Intent); moves && as.Kubeconfig == n.Paths.Kubeconfig("admin.conf") {
				moved := as // renews and deletes the Lease once this node has moved
				moved.Server = n.LocalServerURL()
				lock.As = append(lock.As, moved)
			}
			hold := lock.HoldIfReachable
			if isRequired(e) {
				hold = lock.Hold
			}
			return hold(ctx, e, func(ctx context.Context, e *engine.Env) error {
				return runInOrder(ctx, e, phases)
			})
		}}
}

// runInOrder runs phases and their children. Conditions of phases do not count.
func runInOrder(ctx context.Context, e *engine.Env, phases []engine.Phase) error {
	for _, p := range phases {
		if p.Run != nil {
			if err := p.Run(ctx, e.Named(p.Name)); err != nil {
				return err
			}
		}
		if err := runInOrder(ctx, e, p.Phases); err != nil {
			return err
		}
	}
	return nil
}
