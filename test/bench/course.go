package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"kubeadm/test/nodes"
)

// settled is how long after init a cluster is taken to have nothing left to do.
const settled = time.Minute

// course is the life of a Kubernetes cluster that one program makes and takes apart again.
type course struct {
	cp, early, late *nodes.Node
	command         []string  // for workers to join
	formed          time.Time // when init ended
	untilKubelet    time.Duration
}

// life is what a Kubernetes cluster goes through on nodes of its own.
type life interface {
	boot(context.Context, *nodes.Cluster) error
	stages() []stage
}

// stage is one command in a cluster's life. Its group may be one that is not among the figures: it is needed by others.
type stage struct {
	group string
	do    func(context.Context) (nodes.Result, error)
}

func (c *course) stages() []stage {
	return []stage{
		{initialise, c.init}, {joinEarly, c.joinEarly}, {join, c.join}, {resetWorker, c.resetWorker}, {reset, c.reset},
	}
}

// wanted are the stages up to the last one to be measured: each needs those before it.
func wanted(all []stage, only selection) []stage {
	for len(all) > 0 && !only.wants(all[len(all)-1].group) {
		all = all[:len(all)-1]
	}
	return all
}

// live lets a program go through its turn on fresh nodes. These have the same names and addresses in each turn, and
// the program is in the same place.
func (b *bench) live(ctx context.Context, round int, p program, c life) (err error) {
	stages := wanted(c.stages(), b.only)
	if len(stages) == 0 {
		return nil
	}
	cluster, err := nodes.NewCluster(ctx, nodes.Options{Bundle: b.bundle, Kubeadm: p.path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := c.boot(ctx, cluster); err != nil {
		return err
	}
	t, err := b.ledger.begin(round, p)
	if err != nil {
		return err
	}
	b.log("round %d of %d, %s: the load is %.2f", round, b.rounds, p.name, t.Load)
	return b.measure(ctx, t, c, stages)
}

func (c *course) boot(ctx context.Context, cluster *nodes.Cluster) error {
	added, err := cluster.AddAll(ctx, "cp1", "worker1", "worker2")
	if err != nil {
		return err
	}
	c.cp, c.early, c.late = added[0], added[1], added[2]
	return sleep(ctx, rest)
}

// measure takes the stages one after the other until one fails: what follows would not be what it is called.
func (b *bench) measure(ctx context.Context, t turn, c life, stages []stage) error {
	for _, s := range stages {
		r, err := s.do(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.ledger.take(t, s.group, r, err)
		if err != nil {
			b.log("  %s failed, which ends the turn: %v", s.group, err)
			return nil
		}
		b.log("  %s: %.2f s", s.group, r.Duration.Seconds())
		if c, ok := c.(*course); ok && s.group == initialise {
			b.ledger.add(initialise+kubelet, t.Program, c.untilKubelet.Seconds())
		}
	}
	return nil
}

func (c *course) init(ctx context.Context) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	r, err := c.cp.Init(ctx, nodes.InitConfig(nodes.Config{Address: c.cp.Address()}), io.Discard, "--upload-certs")
	if err != nil {
		return r, err
	}
	c.formed = time.Now()
	if c.command, _, err = nodes.JoinCommands(r.Stdout); err != nil {
		return r, err
	}
	started, err := kubeletStarted(ctx, c.cp)
	c.untilKubelet = started.Sub(c.formed.Add(-r.Duration))
	return r, err
}

func (c *course) joinEarly(ctx context.Context) (nodes.Result, error) {
	return c.joined(ctx, c.early)
}

func (c *course) joined(ctx context.Context, n *nodes.Node) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return n.Join(ctx, c.command, io.Discard)
}

func (c *course) join(ctx context.Context) (nodes.Result, error) {
	if err := c.settle(ctx); err != nil {
		return nodes.Result{}, fmt.Errorf("waiting for the cluster made so far: %w", err)
	}
	r, err := c.joined(ctx, c.late)
	if err != nil {
		return r, err
	}
	return r, ready(ctx, c.cp, c.early, c.late)
}

// settle waits until the cluster of the first two nodes is complete and at rest.
func (c *course) settle(ctx context.Context) error {
	if err := ready(ctx, c.cp, c.early); err != nil {
		return err
	}
	if err := c.cp.AwaitDNS(ctx); err != nil {
		return err
	}
	return sleep(ctx, time.Until(c.formed.Add(settled)))
}

// ready gives Pods a network and waits until the members, which have joined, are Ready. The first one is a control plane.
func ready(ctx context.Context, members ...*nodes.Node) error {
	cp := members[0]
	for _, n := range members {
		// Join may return before the kubelet has registered its node, which the network would then pass over.
		if _, err := cp.Kubectl(ctx, "wait", "--for=create", "--timeout=60s", "node/"+n.Name()); err != nil {
			return err
		}
	}
	if err := cp.Cluster().PodNetwork(ctx, cp); err != nil {
		return err
	}
	return cp.AwaitReady(ctx, len(members))
}

func (c *course) resetWorker(ctx context.Context) (nodes.Result, error) { return undo(ctx, c.late) }

func (c *course) reset(ctx context.Context) (nodes.Result, error) { return undo(ctx, c.cp) }

func undo(ctx context.Context, n *nodes.Node) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return n.Run(ctx, "kubeadm", "reset", "--force")
}
