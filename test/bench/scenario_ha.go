package main

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"kubeadm/test/nodes"
)

// groupInitHA creates a cluster that control planes can join. It is not a figure.
const groupInitHA = "init-before-planes"

// joinDelay is how long to wait before control planes join, so that the addons are running.
const joinDelay = 10 * time.Second

// controlPlaneScenario joins and resets a second control plane, then joins two at once.
type controlPlaneScenario struct {
	nodes       []*nodes.Node
	version     string   // of Kubernetes; empty for that of the bundle
	joinCommand []string // for control planes
}

func (p *controlPlaneScenario) stages() []stage {
	return []stage{{groupInitHA, p.init}, {groupJoinControlPlane, p.join},
		{groupResetControlPlane, p.reset}, {groupJoinControlPlanes, p.joinBoth}}
}

func (p *controlPlaneScenario) options(b *bench) nodes.Options {
	return nodes.Options{Bundle: b.bundle}
}

func (p *controlPlaneScenario) boot(ctx context.Context, cluster *nodes.Cluster, _ int) error {
	return p.bootPlanes(ctx, cluster, "cp1", "cp2", "cp3", "cp4")
}

func (p *controlPlaneScenario) bootPlanes(ctx context.Context, cluster *nodes.Cluster,
	names ...string) (err error) {
	if p.nodes, err = cluster.AddAll(ctx, names...); err != nil {
		return err
	}
	balancer, err := cluster.StartBalancer(ctx)
	if err != nil {
		return err
	}
	return errors.Join(balancer.SetBackends(p.nodes...), sleepContext(ctx, bootDelay))
}

func (p *controlPlaneScenario) init(ctx context.Context) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	first := p.nodes[0]
	balancer, err := first.Cluster().StartBalancer(ctx)
	if err != nil {
		return nodes.Result{}, err
	}
	config := nodes.Config{Address: first.Address(), Endpoint: balancer.Endpoint(),
		Version: p.version}
	r, err := first.Init(ctx, nodes.InitConfig(config), io.Discard, "--upload-certs")
	if err != nil {
		return r, err
	}
	if _, p.joinCommand, err = nodes.JoinCommands(r.Stdout); err == nil && p.joinCommand == nil {
		err = errors.New("init printed no command for control planes")
	}
	return r, err
}

func (p *controlPlaneScenario) join(ctx context.Context) (nodes.Result, error) {
	if err := sleepContext(ctx, joinDelay); err != nil {
		return nodes.Result{}, err
	}
	r, err := p.joinNode(ctx, p.nodes[1])
	if err != nil {
		return r, err
	}
	return r, awaitReady(ctx, p.nodes[:2]...)
}

func (p *controlPlaneScenario) joinNode(ctx context.Context, n *nodes.Node) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	return n.Join(ctx, p.joinCommand, io.Discard)
}

func (p *controlPlaneScenario) reset(ctx context.Context) (nodes.Result, error) {
	r, err := runReset(ctx, p.nodes[1])
	if err != nil {
		return r, err
	}
	_, err = p.nodes[0].Kubectl(ctx, "delete", "node", p.nodes[1].Name())
	return r, err
}

// joinBoth joins two new machines at once and measures the time until both are done.
func (p *controlPlaneScenario) joinBoth(ctx context.Context) (nodes.Result, error) {
	if err := sleepContext(ctx, joinDelay); err != nil {
		return nodes.Result{}, err
	}
	start := time.Now()
	var group errgroup.Group
	for _, n := range p.nodes[2:] {
		group.Go(func() error {
			_, err := p.joinNode(ctx, n)
			return err
		})
	}
	err := group.Wait()
	r := nodes.Result{Duration: time.Since(start)}
	if err != nil {
		return r, err
	}
	return r, awaitReady(ctx, p.nodes[0], p.nodes[2], p.nodes[3])
}
