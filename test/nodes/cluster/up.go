package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"kubeadm/test/nodes"
)

// plan is the cluster that up makes.
type plan struct {
	options       nodes.Options
	controlPlanes int
	workers       int
}

func up(ctx context.Context, args []string) error {
	flags, name := newFlags("up")
	p := plan{}
	flags.StringVar(&p.options.Bundle, "bundle", "", "directory of the components bundle")
	flags.StringVar(&p.options.Kubeadm, "kubeadm", "", "program that makes the cluster")
	flags.IntVar(&p.controlPlanes, "control-planes", 1, "how many nodes run the control plane")
	flags.IntVar(&p.workers, "workers", 1, "how many nodes run nothing but Pods")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.options.Bundle == "" || p.options.Kubeadm == "" {
		return errors.New("up needs --bundle and --kubeadm\n" + usage)
	}
	if p.controlPlanes < 1 || p.workers < 0 {
		return errors.New("up needs at least one control-plane node and no fewer than 0 workers")
	}
	log := progress()
	p.options.Name, p.options.Log = *name, log
	c, err := nodes.NewCluster(ctx, p.options)
	if err != nil {
		return err
	}
	if err := build(ctx, c, p, log); err != nil {
		return errors.Join(err, c.Close())
	}
	if err := c.Keep(); err != nil {
		return errors.Join(err, c.Close())
	}
	explain(c)
	return nil
}

func build(ctx context.Context, c *nodes.Cluster, p plan, log func(string, ...any)) error {
	members, err := c.AddAll(ctx, p.names()...)
	if err != nil {
		return err
	}
	first := members[0]
	worker, controlPlane, err := initialise(ctx, first, p, log)
	if err != nil {
		return err
	}
	for _, n := range members[1:p.controlPlanes] {
		if err := join(ctx, n, controlPlane, log); err != nil {
			return err
		}
	}
	group, joining := errgroup.WithContext(ctx)
	for _, n := range members[p.controlPlanes:] {
		group.Go(func() error { return join(joining, n, worker, log) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return settle(ctx, c, first, log)
}

// names lists the nodes, control planes first.
func (p plan) names() []string {
	var names []string
	for i := range p.controlPlanes {
		names = append(names, fmt.Sprintf("cp%d", i+1))
	}
	for i := range p.workers {
		names = append(names, fmt.Sprintf("worker%d", i+1))
	}
	return names
}

func initialise(ctx context.Context, n *nodes.Node, p plan, log func(string, ...any)) (worker, controlPlane []string, err error) {
	config := nodes.Config{Address: n.Address()}
	var flags []string
	if p.controlPlanes > 1 {
		config.Endpoint = n.Address() + ":6443"
		flags = append(flags, "--upload-certs")
	}
	result, err := n.Init(ctx, nodes.InitConfig(config), io.Discard, flags...)
	if err != nil {
		return nil, nil, err
	}
	log("%s: kubeadm init took %.1f s", n.Name(), result.Duration.Seconds())
	if err := n.Cluster().PodNetwork(ctx, n); err != nil {
		return nil, nil, err
	}
	return nodes.JoinCommands(result.Stdout)
}

func join(ctx context.Context, n *nodes.Node, command []string, log func(string, ...any)) error {
	result, err := n.Join(ctx, command, io.Discard)
	if err != nil {
		return err
	}
	log("%s: kubeadm join took %.1f s", n.Name(), result.Duration.Seconds())
	return nil
}

func settle(ctx context.Context, c *nodes.Cluster, first *nodes.Node, log func(string, ...any)) error {
	if err := c.PodNetwork(ctx, first); err != nil {
		return err
	}
	if err := first.AwaitReady(ctx, len(c.Nodes())); err != nil {
		return err
	}
	log("all nodes are Ready")
	if err := first.AwaitDNS(ctx); err != nil {
		return err
	}
	log("CoreDNS is available")
	config, err := first.ReadFile("/etc/kubernetes/admin.conf")
	if err != nil {
		return err
	}
	return os.WriteFile(c.Kubeconfig(), config, 0o600)
}

func explain(c *nodes.Cluster) {
	name := ""
	if c.Name() != "dev" {
		name = " --name " + c.Name()
	}
	program, err := os.Executable()
	if err != nil || filepath.IsAbs(program) && isTemporary(program) {
		program = "go run ./test/nodes/cluster"
	}
	fmt.Printf(`
The cluster is up. Its network is its own, so commands enter it:
  %[1]s kubectl%[2]s -- get nodes -o wide
  %[1]s shell%[2]s cp1
  %[1]s down%[2]s
`, program, name)
}

// isTemporary tells a program that "go run" built and will delete.
func isTemporary(program string) bool {
	temporary, err := filepath.Rel(os.TempDir(), program)
	return err == nil && !filepath.IsAbs(temporary) && temporary[0] != '.'
}
