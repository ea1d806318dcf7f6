package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"kubeadm/test/nodes"
)

// How often commands run that leave a node as it was.
const (
	idleRuns    = 20
	versionRuns = 20
	certsRuns   = 10
)

// bound is how long a single command may take.
const bound = 6 * time.Minute

// rest is how long nodes are left alone after they booted: systemd and containerd have things to finish.
const rest = 3 * time.Second

// sizes measures the programs themselves.
func (b *bench) sizes() error {
	for _, p := range b.programs {
		info, err := os.Stat(p.path)
		if err != nil {
			return err
		}
		b.ledger.add(size, p.name, float64(info.Size())/1e6)
	}
	return nil
}

// quick measures what needs no Kubernetes cluster, both programs on one node, and what a run costs in itself.
func (b *bench) quick(ctx context.Context) (err error) {
	c, err := nodes.NewCluster(ctx, nodes.Options{Bundle: b.bundle})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	n, err := c.Add(ctx, "cp1")
	if err != nil {
		return err
	}
	for _, p := range b.programs {
		if err := n.Copy(p.path, placed(p), 0o755); err != nil {
			return err
		}
	}
	if err := sleep(ctx, rest); err != nil {
		return err
	}
	if b.overhead, err = calibrate(ctx, n); err != nil {
		return err
	}
	return errors.Join(b.versions(ctx, n), b.certs(ctx, n))
}

// placed is where a program is on the node that both share.
func placed(p program) string { return "/usr/local/bin/kubeadm-" + p.name }

func calibrate(ctx context.Context, n *nodes.Node) (*overhead, error) {
	var l ledger
	for range idleRuns {
		r, err := n.Run(ctx, "true")
		if err != nil {
			return nil, err
		}
		l.take(turn{}, "true", r, nil)
	}
	times, peaks := summarize(l.samples["true"][""]), summarize(l.samples["true"+peak][""])
	return &overhead{Seconds: times.Median, Memory: peaks.Median}, nil
}

func (b *bench) versions(ctx context.Context, n *nodes.Node) error {
	return b.inTurn(ctx, version, versionRuns, func(ctx context.Context, p program, _ int) (nodes.Result, error) {
		return n.Run(ctx, placed(p), "version")
	})
}

func (b *bench) certs(ctx context.Context, n *nodes.Node) error {
	return b.inTurn(ctx, certs, certsRuns, func(ctx context.Context, p program, run int) (nodes.Result, error) {
		dir := fmt.Sprintf("/root/%s-%d", p.name, run)
		config := nodes.Config{Address: n.Address(), Cluster: "certificatesDir: " + dir + "/pki"}
		if err := n.WriteFile(dir+"/kubeadm.yaml", []byte(nodes.InitConfig(config)), 0o600); err != nil {
			return nodes.Result{}, err
		}
		return n.Run(ctx, placed(p), "init", "phase", "certs", "all", "--config", dir+"/kubeadm.yaml")
	})
}

// inTurn runs a group's command by one program and the other, as often as given, if the group is wanted.
func (b *bench) inTurn(
	ctx context.Context, group string, runs int, do func(context.Context, program, int) (nodes.Result, error),
) error {
	if !b.only.wants(group) {
		return nil
	}
	b.log("%s: %d runs each", group, runs)
	for run := range runs {
		for _, p := range alternate(b.programs, run) {
			bounded, cancel := context.WithTimeout(ctx, bound)
			r, err := do(bounded, p, run)
			cancel()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			b.ledger.take(turn{Round: run + 1, Program: p.name}, group, r, err)
		}
	}
	return nil
}
