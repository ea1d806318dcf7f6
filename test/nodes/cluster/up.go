package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"kubeadm/test/nodes"
)

func createCluster(ctx context.Context, args []string) error {
	flags, name := newFlags("up")
	var options nodes.Options
	var size nodes.Topology
	flags.StringVar(&options.Bundle, "bundle", "", "directory of the components bundle")
	flags.StringVar(&options.Kubeadm, "kubeadm", "", "kubeadm that creates the cluster")
	flags.IntVar(&size.ControlPlanes, "control-planes", 1, "number of control planes")
	flags.IntVar(&size.Workers, "workers", 1, "number of workers")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if options.Bundle == "" || options.Kubeadm == "" {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("up needs --bundle and --kubeadm")
	}
	options.Name, options.Log = *name, newProgress()
	c, err := nodes.NewCluster(ctx, options)
	if err != nil {
		return err
	}
	if err := c.Bootstrap(ctx, size); err != nil {
		return errors.Join(err, keepOrRemove(c))
	}
	if err := c.Keep(); err != nil {
		return errors.Join(err, c.Close())
	}
	if err := startBalancerProcess(ctx, c); err != nil {
		return err
	}
	printHints(c)
	return nil
}

// startBalancerProcess starts a process for the load balancer, if the cluster has one, since this
// process exits.
func startBalancerProcess(ctx context.Context, c *nodes.Cluster) error {
	if !c.HasBalancer() {
		return nil
	}
	b, err := c.StartBalancer(ctx)
	if err != nil {
		return err
	}
	b.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.Dir(), "balancer.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(self, "balance", "--name", c.Name())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := c.AddProcess(cmd.Process.Pid); err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	return cmd.Process.Release()
}

// runBalancer runs the load balancer of a cluster until it is interrupted or the cluster is
// removed.
func runBalancer(ctx context.Context, args []string) error {
	flags, name := newFlags("balance")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := nodes.Open(*name)
	if err != nil {
		return err
	}
	if !c.HasBalancer() {
		return fmt.Errorf("cluster %s has no load balancer, since it has one control plane", *name)
	}
	b, err := c.StartBalancer(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	newProgress()("balancing at %s", b.Endpoint())
	<-ctx.Done()
	return nil
}

// keepOrRemove removes a cluster that could not be created, or keeps it if KEEP=failure is set.
func keepOrRemove(c *nodes.Cluster) error {
	if os.Getenv("KEEP") != "failure" {
		return c.Close()
	}
	if err := c.Keep(); err != nil {
		return err
	}
	printHints(c)
	return startBalancerProcess(context.Background(), c)
}

func printHints(c *nodes.Cluster) {
	name := ""
	if c.Name() != "dev" {
		name = " --name " + c.Name()
	}
	fmt.Printf(`
The cluster runs on its own network. Use these commands to reach it:
  go run ./test/nodes/cluster kubectl%[1]s -- get nodes -o wide
  go run ./test/nodes/cluster shell%[1]s cp1
  go run ./test/nodes/cluster down%[1]s
`, name)
	if name == "" {
		fmt.Print("Shortcuts for the last two: make shell NODE=cp1, make cluster-down\n")
	}
}
