package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"kubeadm/test/nodes"
)

// How often commands run that do not change a node.
const (
	idleRuns    = 20
	versionRuns = 20
	certsRuns   = 10
	renewRuns   = 10
)

// commandTimeout is how long a single command may take.
const commandTimeout = 6 * time.Minute

// bootDelay is how long to wait after nodes booted, since systemd and containerd still start.
const bootDelay = 3 * time.Second

// measureSizes measures the programs themselves.
func (b *bench) measureSizes() error {
	for _, p := range b.programs {
		info, err := os.Stat(p.path)
		if err != nil {
			return err
		}
		b.results.addSample(groupSize, p.name, float64(info.Size())/1e6)
	}
	return nil
}

// measureCommands measures commands that need no Kubernetes cluster, with both programs on one
// node, and the overhead of running a command.
func (b *bench) measureCommands(ctx context.Context) (err error) {
	c, err := nodes.NewCluster(ctx, nodes.Options{Bundle: b.bundle})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	n, err := c.Add(ctx, "cp1")
	if err != nil {
		return err
	}
	if err := b.copyPrograms(n); err != nil {
		return err
	}
	if err := sleepContext(ctx, bootDelay); err != nil {
		return err
	}
	if b.overhead, err = measureOverhead(ctx, n); err != nil {
		return err
	}
	return errors.Join(b.measureVersion(ctx, n), b.measureCerts(ctx, n))
}

// measureRenewal measures the renewal of all certificates of a control plane, with both programs on
// one node. Each renews what the other one wrote.
func (b *bench) measureRenewal(ctx context.Context) (err error) {
	if !b.only.includes(groupCertsRenew) {
		return nil
	}
	c, err := nodes.NewCluster(ctx, nodes.Options{Bundle: b.bundle, Kubeadm: b.programs[0].path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	cp, err := c.Add(ctx, "cp1")
	if err != nil {
		return err
	}
	if err := b.copyPrograms(cp); err != nil {
		return err
	}
	if err := initAndSettle(ctx, cp); err != nil {
		return fmt.Errorf("creating a cluster to renew certificates of: %w", err)
	}
	return b.runAlternating(ctx, groupCertsRenew, renewRuns,
		func(ctx context.Context, p program, _ int) (nodes.Result, error) {
			return cp.Run(ctx, programPath(p), "certs", "renew", "all")
		})
}

// initAndSettle initializes a control plane and waits until it is complete and idle.
func initAndSettle(ctx context.Context, cp *nodes.Node) error {
	if err := sleepContext(ctx, bootDelay); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	config := nodes.InitConfig(nodes.Config{Address: cp.Address()})
	if _, err := cp.Init(ctx, config, io.Discard); err != nil {
		return err
	}
	if err := awaitReady(ctx, cp); err != nil {
		return err
	}
	return errors.Join(cp.AwaitDNS(ctx), sleepContext(ctx, settleTime))
}

// copyPrograms installs both programs on one node.
func (b *bench) copyPrograms(n *nodes.Node) error {
	for _, p := range b.programs {
		if err := n.Copy(p.path, programPath(p), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// programPath is a program's path on the node that both share.
func programPath(p program) string { return "/usr/local/bin/kubeadm-" + p.name }

func measureOverhead(ctx context.Context, n *nodes.Node) (*overhead, error) {
	var l measurements
	for range idleRuns {
		r, err := n.Run(ctx, "true")
		if err != nil {
			return nil, err
		}
		l.addRun(turn{}, "true", r, nil)
	}
	times, peaks := newSummary(l.samples["true"][""]),
		newSummary(l.samples["true"+memorySuffix][""])
	return &overhead{Seconds: times.Median, Memory: peaks.Median}, nil
}

func (b *bench) measureVersion(ctx context.Context, n *nodes.Node) error {
	return b.runAlternating(ctx, groupVersion, versionRuns,
		func(ctx context.Context, p program, _ int) (nodes.Result, error) {
			return n.Run(ctx, programPath(p), "version")
		})
}

func (b *bench) measureCerts(ctx context.Context, n *nodes.Node) error {
	return b.runAlternating(ctx, groupCerts, certsRuns,
		func(ctx context.Context, p program, run int) (nodes.Result, error) {
			dir := fmt.Sprintf("/root/%s-%d", p.name, run)
			config := nodes.Config{Address: n.Address(),
				Cluster: "certificatesDir: " + dir + "/pki"}
			if err := n.WriteFile(dir+"/kubeadm.yaml", []byte(nodes.InitConfig(config)),
				0o600); err != nil {
				return nodes.Result{}, err
			}
			return n.Run(ctx, programPath(p), "init", "phase", "certs", "all", "--config",
				dir+"/kubeadm.yaml")
		})
}

// runAlternating runs a group's command with both programs alternately, if the group is selected.
func (b *bench) runAlternating(
	ctx context.Context, group string, runs int,
	do func(context.Context, program, int) (nodes.Result, error),
) error {
	if !b.only.includes(group) {
		return nil
	}
	b.log("%s: %d runs each", group, runs)
	for run := range runs {
		for _, p := range orderForRound(b.programs, run) {
			bounded, cancel := context.WithTimeout(ctx, commandTimeout)
			r, err := do(bounded, p, run)
			cancel()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			b.results.addRun(turn{Round: run + 1, Program: p.name}, group, r, err)
		}
	}
	return nil
}
