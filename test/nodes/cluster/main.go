// Command cluster creates, inspects and removes Kubernetes clusters of sandboxed nodes on this
// machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"kubeadm/test/nodes"
)

const usage = `Usage:
  cluster up --bundle DIR --kubeadm FILE [--control-planes 1] [--workers 1] [--name dev]
  cluster shell [--name dev] NODE              open a shell on a node
  cluster exec [--name dev] NODE -- CMD ...    run a command on a node
  cluster kubectl [--name dev] -- ARGS ...     run kubectl from outside the nodes
  cluster list                                 list clusters and their nodes
  cluster balance [--name dev]                 run the load balancer of a cluster whose own has stopped
  cluster down [--name dev] [--all]            remove a cluster, or all of them
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		var exit *nodes.ExitError
		if errors.As(err, &exit) && len(os.Args) > 1 && os.Args[1] == "exec" {
			os.Exit(exit.Result.Code)
		}
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("no command given")
	}
	commands := map[string]func(context.Context, []string) error{
		"up": createCluster, "shell": openShell, "exec": runOnNode, "kubectl": runKubectl,
		"list": listClusters, "down": removeClusters, "balance": runBalancer,
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("there is no command %q", args[0])
	}
	return command(ctx, args[1:])
}

// newFlags returns a flag set with the flag that all commands have.
func newFlags(command string) (*flag.FlagSet, *string) {
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	return flags, flags.String("name", "dev", "name of the cluster")
}

// newProgress returns a function that prints lines with the seconds since now.
func newProgress() func(string, ...any) {
	start := time.Now()
	return func(format string, args ...any) {
		fmt.Printf("%6.1fs  %s\n", time.Since(start).Seconds(), fmt.Sprintf(format, args...))
	}
}

func openShell(_ context.Context, args []string) error {
	flags, name := newFlags("shell")
	if err := flags.Parse(args); err != nil {
		return err
	}
	n, err := findNode(*name, flags.Arg(0))
	if err != nil {
		return err
	}
	return n.Shell()
}

func runOnNode(ctx context.Context, args []string) error {
	flags, name := newFlags("exec")
	if err := flags.Parse(args); err != nil {
		return err
	}
	n, err := findNode(*name, flags.Arg(0))
	if err != nil {
		return err
	}
	words := withoutDashes(flags.Args()[1:])
	if len(words) == 0 {
		return fmt.Errorf("no command given to run on %s\n%s", n.Name(), usage)
	}
	cmd := n.Command(words...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	_, err = cmd.Run(ctx)
	return err
}

func runKubectl(_ context.Context, args []string) error {
	flags, name := newFlags("kubectl")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := nodes.Open(*name)
	if err != nil {
		return err
	}
	return c.Kubectl(withoutDashes(flags.Args())...)
}

func withoutDashes(args []string) []string {
	if len(args) > 0 && args[0] == "--" {
		return args[1:]
	}
	return args
}

func findNode(cluster, name string) (*nodes.Node, error) {
	c, err := nodes.Open(cluster)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range c.Nodes() {
		if n.Name() == name {
			return n, nil
		}
		names = append(names, n.Name())
	}
	return nil, fmt.Errorf("cluster %s has no node %q; it has %s", cluster, name,
		strings.Join(names, ", "))
}

func listClusters(context.Context, []string) error {
	names, err := nodes.ListClusters()
	if err != nil {
		return err
	}
	for _, name := range names {
		c, err := nodes.Open(name)
		if err != nil {
			fmt.Printf("%-12s incomplete; remove it with: cluster down --name %s\n", name, name)
			continue
		}
		for _, n := range c.Nodes() {
			state := "running"
			if _, err := n.PID(); err != nil {
				state = "off"
			}
			fmt.Printf("%-12s %-12s %-14s %s\n", name, n.Name(), n.Address(), state)
		}
	}
	return nil
}

func removeClusters(ctx context.Context, args []string) error {
	flags, name := newFlags("down")
	all := flags.Bool("all", false, "remove all clusters of this machine")
	if err := flags.Parse(args); err != nil {
		return err
	}
	names := []string{*name}
	if *all {
		var err error
		if names, err = nodes.ListClusters(); err != nil {
			return err
		}
	}
	log := newProgress()
	for _, name := range names {
		if err := nodes.Remove(ctx, name); err != nil {
			return err
		}
		log("cluster %s: no process, mount, control group or file is left", name)
	}
	return nil
}
