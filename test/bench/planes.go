package main

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"kubeadm/test/nodes"
)

// begun is what makes a cluster that control planes can join. It is no figure.
const begun = "init-before-planes"

// calm is how long a control plane is left alone before others join it: what init leaves for later is done by then.
const calm = 10 * time.Second

// planes is the life of a cluster of control planes: a second one comes and goes, then two come at once.
type planes struct {
	all     []*nodes.Node
	command []string // for control planes to join
}

func (p *planes) stages() []stage {
	return []stage{{begun, p.begin}, {joinPlane, p.join}, {resetPlane, p.reset}, {joinPlanes, p.joinBoth}}
}

func (p *planes) boot(ctx context.Context, cluster *nodes.Cluster) (err error) {
	if p.all, err = cluster.AddAll(ctx, "cp1", "cp2", "cp3", "cp4"); err != nil {
		return err
	}
	balancer, err := cluster.StartBalancer(ctx)
	if err != nil {
		return err
	}
	return errors.Join(balancer.SetBackends(p.all...), sleep(ctx, rest))
}

func (p *planes) begin(ctx context.Context) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	first := p.all[0]
	balancer, err := first.Cluster().StartBalancer(ctx)
	if err != nil {
		return nodes.Result{}, err
	}
	config := nodes.Config{Address: first.Address(), Endpoint: balancer.Endpoint()}
	r, err := first.Init(ctx, nodes.InitConfig(config), io.Discard, "--upload-certs")
	if err != nil {
		return r, err
	}
	if _, p.command, err = nodes.JoinCommands(r.Stdout); err == nil && p.command == nil {
		err = errors.New("init printed no command for control planes")
	}
	return r, err
}

func (p *planes) join(ctx context.Context) (nodes.Result, error) {
	if err := sleep(ctx, calm); err != nil {
		return nodes.Result{}, err
	}
	r, err := p.joined(ctx, p.all[1])
	if err != nil {
		return r, err
	}
	return r, ready(ctx, p.all[:2]...)
}

func (p *planes) joined(ctx context.Context, n *nodes.Node) (nodes.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return n.Join(ctx, p.command, io.Discard)
}

func (p *planes) reset(ctx context.Context) (nodes.Result, error) {
	r, err := undo(ctx, p.all[1])
	if err != nil {
		return r, err
	}
	_, err = p.all[0].Kubectl(ctx, "delete", "node", p.all[1].Name())
	return r, err
}

// joinBoth takes the time until both are done. The other two machines are new.
func (p *planes) joinBoth(ctx context.Context) (nodes.Result, error) {
	if err := sleep(ctx, calm); err != nil {
		return nodes.Result{}, err
	}
	start := time.Now()
	var group errgroup.Group
	for _, n := range p.all[2:] {
		group.Go(func() error {
			_, err := p.joined(ctx, n)
			return err
		})
	}
	err := group.Wait()
	r := nodes.Result{Duration: time.Since(start)}
	if err != nil {
		return r, err
	}
	return r, ready(ctx, p.all[0], p.all[2], p.all[3])
}
