package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"kubeadm/test/nodes"
)

func up(ctx context.Context, args []string) error {
	flags, name := newFlags("up")
	var options nodes.Options
	var shape nodes.Shape
	flags.StringVar(&options.Bundle, "bundle", "", "directory of the components bundle")
	flags.StringVar(&options.Kubeadm, "kubeadm", "", "program that makes the cluster")
	flags.IntVar(&shape.ControlPlanes, "control-planes", 1, "how many nodes run the control plane")
	flags.IntVar(&shape.Workers, "workers", 1, "how many nodes run nothing but Pods")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if options.Bundle == "" || options.Kubeadm == "" {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("up needs --bundle and --kubeadm")
	}
	options.Name, options.Log = *name, progress()
	c, err := nodes.NewCluster(ctx, options)
	if err != nil {
		return err
	}
	if err := c.Form(ctx, shape); err != nil {
		return errors.Join(err, abandon(c))
	}
	if err := c.Keep(); err != nil {
		return errors.Join(err, c.Close())
	}
	explain(c)
	return nil
}

// abandon removes a cluster that did not come up, or leaves it to be looked at.
func abandon(c *nodes.Cluster) error {
	if os.Getenv("KEEP") != "failure" {
		return c.Close()
	}
	if err := c.Keep(); err != nil {
		return err
	}
	explain(c)
	return nil
}

func explain(c *nodes.Cluster) {
	name := ""
	if c.Name() != "dev" {
		name = " --name " + c.Name()
	}
	fmt.Printf(`
The cluster's network is its own; these commands enter it:
  go run ./test/nodes/cluster kubectl%[1]s -- get nodes -o wide
  go run ./test/nodes/cluster shell%[1]s cp1
  go run ./test/nodes/cluster down%[1]s
`, name)
	if name == "" {
		fmt.Print("or, shorter, the last two: make shell NODE=cp1, make cluster-down\n")
	}
}
