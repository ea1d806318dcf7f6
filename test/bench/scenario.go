package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubeadm/test/nodes"
)

// settleTime is how long after init a cluster is considered idle.
const settleTime = time.Minute

// workerScenario creates a cluster with workers and resets it.
type workerScenario struct {
	cp, early, late *nodes.Node
	joinCommand     []string  // for workers
	initDone        time.Time // when init finished
	untilKubelet    time.Duration
}

// scenario is a sequence of commands in a Kubernetes cluster on nodes of its own.
type scenario interface {
	// boot boots the nodes that the first stages need, as many as given.
	boot(ctx context.Context, cluster *nodes.Cluster, stages int) error
	stages() []stage
	options(b *bench) nodes.Options
}

// stage is a command of a scenario. Its group may be none of the figures', if only later stages
// need it.
type stage struct {
	group string
	do    func(context.Context) (nodes.Result, error)
}

func (c *workerScenario) stages() []stage {
	return []stage{
		{groupInit, c.init},
		{groupJoinEarly, func(ctx context.Context) (nodes.Result, error) {
			return c.joinNode(ctx, c.early)
		}},
		{groupJoin, c.join},
		{groupResetWorker, func(ctx context.Context) (nodes.Result, error) {
			return runReset(ctx, c.late)
		}},
		{groupReset, func(ctx context.Context) (nodes.Result, error) {
			return runReset(ctx, c.cp)
		}},
	}
}

// neededStages returns the stages up to the last one to be measured: each needs those before it.
func neededStages(all []stage, only selection) []stage {
	for len(all) > 0 && !only.includes(all[len(all)-1].group) {
		all = all[:len(all)-1]
	}
	return all
}

// runScenario runs a program's turn of a scenario on fresh nodes. They have the same names and
// addresses in each turn, and the program the same path.
func (b *bench) runScenario(ctx context.Context, round int, p program, c scenario) (err error) {
	stages := neededStages(c.stages(), b.only)
	if len(stages) == 0 {
		return nil
	}
	options := c.options(b)
	options.Kubeadm = p.path
	cluster, err := nodes.NewCluster(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	if err := c.boot(ctx, cluster, len(stages)); err != nil {
		return err
	}
	t, err := b.results.beginTurn(round, p)
	if err != nil {
		return err
	}
	b.log("round %d of %d, %s: the load is %.2f", round, b.rounds, p.name, t.Load)
	return b.runStages(ctx, t, c, stages)
}

func (c *workerScenario) options(b *bench) nodes.Options { return nodes.Options{Bundle: b.bundle} }

// boot boots one node for init, another one for each join.
func (c *workerScenario) boot(ctx context.Context, cluster *nodes.Cluster, stages int) error {
	members := []**nodes.Node{&c.cp, &c.early, &c.late}
	names := []string{"cp1", "worker1", "worker2"}[:min(stages, len(members))]
	added, err := cluster.AddAll(ctx, names...)
	if err != nil {
		return err
	}
	for i, n := range added {
		*members[i] = n
	}
	return sleepContext(ctx, bootDelay)
}

// runStages runs the stages one after the other until one fails: the later ones need it.
func (b *bench) runStages(ctx context.Context, t turn, c scenario, stages []stage) error {
	for _, s := range stages {
		r, err := s.do(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		b.results.addRun(t, s.group, r, err)
		if err != nil {
			b.log("  %s failed, which ends the turn: %v", s.group, err)
			return nil
		}
		b.log("  %s: %.2f s", s.group, r.Duration.Seconds())
		if c, ok := c.(*workerScenario); ok && s.group == groupInit {
			b.results.addSample(groupInit+kubeletSuffix, t.Program, c.untilKubelet.Seconds())
		}
		if c, ok := c.(*upgradeScenario); ok && s.group == groupUpgradeApply {
			b.results.addSample(groupUpgradeApply+gapSuffix, t.Program, c.gap.Seconds())
		}
	}
	return nil
}

func (c *workerScenario) init(ctx context.Context) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if err := writeInitConfig(c.cp); err != nil {
		return nodes.Result{}, err
	}
	r, err := runMeasured(ctx, c.cp.Command("kubeadm", "init", "--config", initConfigFile,
		"--upload-certs"), memoryInterval)
	if err != nil {
		return r, err
	}
	c.initDone = time.Now()
	if c.joinCommand, _, err = nodes.JoinCommands(r.Stdout); err != nil {
		return r, err
	}
	started, err := findKubeletStart(ctx, c.cp)
	c.untilKubelet = started.Sub(c.initDone.Add(-r.Duration))
	return r, err
}

// initConfigFile is the configuration of init on a node.
const initConfigFile = "/root/kubeadm.yaml"

func writeInitConfig(n *nodes.Node) error {
	return n.WriteFile(initConfigFile, []byte(nodes.InitConfig(nodes.Config{Address: n.Address()})),
		0o600)
}

func (c *workerScenario) joinNode(ctx context.Context, n *nodes.Node) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	return runMeasured(ctx, n.Command(append(slices.Clone(c.joinCommand),
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)...), memoryInterval)
}

func (c *workerScenario) join(ctx context.Context) (nodes.Result, error) {
	if err := c.awaitSettled(ctx); err != nil {
		return nodes.Result{}, fmt.Errorf("waiting for the cluster of the first two nodes: %w", err)
	}
	r, err := c.joinNode(ctx, c.late)
	if err != nil {
		return r, err
	}
	return r, awaitReady(ctx, c.cp, c.early, c.late)
}

// awaitSettled waits until the cluster of the first two nodes is complete and idle.
func (c *workerScenario) awaitSettled(ctx context.Context) error {
	if err := awaitReady(ctx, c.cp, c.early); err != nil {
		return err
	}
	if err := c.cp.AwaitDNS(ctx); err != nil {
		return err
	}
	return sleepContext(ctx, time.Until(c.initDone.Add(settleTime)))
}

// awaitReady gives Pods a network and waits until the members, which have joined, are Ready. The
// first one is a control plane.
func awaitReady(ctx context.Context, members ...*nodes.Node) error {
	cp := members[0]
	for _, n := range members {
		// join may return before the kubelet has registered its Node, which PodNetwork needs.
		if _, err := cp.Kubectl(ctx, "wait", "--for=create", "--timeout=60s",
			"node/"+n.Name()); err != nil {
			return err
		}
	}
	if err := cp.Cluster().PodNetwork(ctx, cp); err != nil {
		return err
	}
	return cp.AwaitReady(ctx, len(members))
}

func runReset(ctx context.Context, n *nodes.Node) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	return n.Run(ctx, "kubeadm", "reset", "--force")
}
