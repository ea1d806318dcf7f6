package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sync/errgroup"
)

// Topology is the number of nodes of each kind in a Kubernetes cluster.
type Topology struct {
	ControlPlanes int // at least 1: cp1, cp2, …
	Workers       int // worker1, worker2, …
}

func (s Topology) names() []string {
	var names []string
	for i := range s.ControlPlanes {
		names = append(names, fmt.Sprintf("cp%d", i+1))
	}
	for i := range s.Workers {
		names = append(names, fmt.Sprintf("worker%d", i+1))
	}
	return names
}

// Bootstrap adds nodes and creates a Kubernetes cluster of them as a user would: kubeadm init on
// cp1, and on the others the join commands that it prints. Several control planes get a load
// balancer. On return all nodes are Ready, CoreDNS is available, and Kubeconfig exists.
func (c *Cluster) Bootstrap(ctx context.Context, size Topology) error {
	if size.ControlPlanes < 1 || size.Workers < 0 {
		return errors.New("a Kubernetes cluster needs at least one control plane and 0 or more workers")
	}
	members, err := c.AddAll(ctx, size.names()...)
	if err != nil {
		return err
	}
	first := members[0]
	worker, controlPlane, err := c.initFirst(ctx, first, size)
	if err != nil {
		return err
	}
	// Pod CIDRs are assigned some seconds after init.
	group, joining := errgroup.WithContext(ctx)
	group.Go(func() error { return c.PodNetwork(joining, first) })
	group.Go(func() error {
		for _, n := range members[1:size.ControlPlanes] {
			if err := c.joinNode(joining, n, controlPlane); err != nil {
				return err
			}
		}
		return nil
	})
	for _, n := range members[size.ControlPlanes:] {
		group.Go(func() error { return c.joinNode(joining, n, worker) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.awaitReady(ctx, first)
}

func (c *Cluster) initFirst(ctx context.Context, n *Node,
	size Topology) (worker, controlPlane []string, err error) {
	config := Config{Address: n.Address()}
	var flags []string
	if size.ControlPlanes > 1 {
		balancer, err := c.StartBalancer(ctx)
		if err != nil {
			return nil, nil, err
		}
		if err := balancer.SetBackends(c.Nodes()[:size.ControlPlanes]...); err != nil {
			return nil, nil, err
		}
		config.Endpoint = balancer.Endpoint()
		flags = append(flags, "--upload-certs")
	}
	result, err := n.Init(ctx, InitConfig(config), io.Discard, flags...)
	if err != nil {
		return nil, nil, err
	}
	c.log("%s: kubeadm init took %.1f s", n.name, result.Duration.Seconds())
	return JoinCommands(result.Stdout)
}

func (c *Cluster) joinNode(ctx context.Context, n *Node, command []string) error {
	result, err := n.Join(ctx, command, io.Discard)
	if err != nil {
		return err
	}
	c.log("%s: kubeadm join took %.1f s", n.name, result.Duration.Seconds())
	return nil
}

func (c *Cluster) awaitReady(ctx context.Context, first *Node) error {
	// join returns before its kubelet registers.
	if err := first.AwaitNodes(ctx, len(c.Nodes())); err != nil {
		return err
	}
	if err := c.PodNetwork(ctx, first); err != nil {
		return err
	}
	if err := first.AwaitReady(ctx, len(c.Nodes())); err != nil {
		return err
	}
	c.log("all nodes are Ready")
	if err := first.AwaitDNS(ctx); err != nil {
		return err
	}
	c.log("CoreDNS is available")
	config, err := first.ReadFile("/etc/kubernetes/admin.conf")
	if err != nil {
		return err
	}
	return os.WriteFile(c.Kubeconfig(), config, 0o600)
}
