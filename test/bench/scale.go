package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"kubeadm/test/nodes"
)

var (
	//go:embed machines.sh
	machinesScript string
	//go:embed machine.sh
	machineScript string
)

// The network of simulated machines, and their number: a bridge has 1024 ports.
const (
	machineNetwork = "10.78.0.0/16"
	maxMachines    = 1000
)

// simulatedMachines are many simulated machines that join one cluster.
type simulatedMachines struct {
	cp, host    *nodes.Node // host is the node that all machines are on
	joinCommand []string    // for machines
}

// joinOutcome is the result of one machine's join.
type joinOutcome struct {
	result nodes.Result
	err    error
}

// measureScale joins many machines to a fresh cluster that a program created.
func (b *bench) measureScale(ctx context.Context, p program) (err error) {
	cluster, err := nodes.NewCluster(ctx, nodes.Options{Bundle: b.bundle, Kubeadm: p.path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	t, err := b.results.beginTurn(1, p)
	if err != nil {
		return err
	}
	b.log("%s: %d simulated kubelets, %d at once: the load is %.2f", p.name, b.kubelets, b.atOnce,
		t.Load)
	c := &simulatedMachines{}
	err = c.createCluster(ctx, cluster, b.kubelets)
	if err == nil {
		err = b.measureJoins(ctx, t, c)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		b.log("  %s failed: %v", groupScale, err)
		b.results.addFailure(t, groupScale, err)
	}
	return nil
}

// createCluster creates the cluster, with an audit log, and the machines.
func (c *simulatedMachines) createCluster(ctx context.Context, cluster *nodes.Cluster,
	machines int) error {
	added, err := cluster.AddAll(ctx, "cp1", "machines")
	if err != nil {
		return err
	}
	c.cp, c.host = added[0], added[1]
	if err := c.cp.WriteFile(auditDir+"/policy.yaml", []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	if err := c.createMachines(ctx, machines); err != nil {
		return err
	}
	config := nodes.Config{Address: c.cp.Address(), Cluster: auditConfig + manyNodes}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	r, err := c.cp.Init(ctx, nodes.InitConfig(config), io.Discard)
	if err != nil {
		return err
	}
	if c.joinCommand, _, err = nodes.JoinCommands(r.Stdout); err != nil {
		return err
	}
	if err := cluster.PodNetwork(ctx, c.cp); err != nil {
		return err
	}
	return c.cp.AwaitDNS(ctx)
}

// manyNodes sets a Pod CIDR size that is enough for a thousand nodes.
const manyNodes = `controllerManager:
  extraArgs:
  - name: node-cidr-mask-size
    value: "26"
`

// createMachines creates the machines on their node, and the control plane's route to them.
func (c *simulatedMachines) createMachines(ctx context.Context, machines int) error {
	const simulated = "kubelet-bootstrap"
	bundled := filepath.Join(c.host.Cluster().Bundle(), "bin", simulated)
	if err := c.host.Copy(bundled, "/usr/local/bin/"+simulated, 0o755); err != nil {
		return err
	}
	if err := c.host.WriteFile("/usr/local/lib/machine.sh", []byte(machineScript),
		0o644); err != nil {
		return err
	}
	if _, err := c.host.Run(ctx, "sh", "-c", machinesScript, "sh",
		strconv.Itoa(machines)); err != nil {
		return err
	}
	_, err := c.cp.Run(ctx, "ip", "route", "add", machineNetwork, "via", c.host.Address())
	return err
}

// measureJoins joins the machines and records the results. If one join fails there are no figures
// of all of them.
func (b *bench) measureJoins(ctx context.Context, t turn, c *simulatedMachines) error {
	begun := time.Now()
	outcomes := c.join(ctx, b.kubelets, b.atOnce)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	complete := true
	for _, o := range outcomes {
		b.results.addRun(t, groupScale, o.result, o.err)
		complete = complete && o.err == nil
	}
	if !complete {
		return nil
	}
	if err := c.cp.AwaitNodes(ctx, 1+b.kubelets); err != nil {
		return err
	}
	rate := float64(b.kubelets) / time.Since(begun).Minutes()
	b.log("  %s: %.0f a minute", groupScale, rate)
	b.results.addSample(groupScale+rateSuffix, t.Program, rate)
	return b.addRequests(t, c.cp)
}

// addRequests records the number of each machine's requests to the API server.
func (b *bench) addRequests(t turn, cp *nodes.Node) error {
	counts, err := readRequestCounts(cp, netip.MustParsePrefix(machineNetwork))
	if err != nil {
		return err
	}
	if len(counts) != b.kubelets {
		return fmt.Errorf("the API server's audit log has requests of %d machines, want %d",
			len(counts), b.kubelets)
	}
	for _, a := range counts {
		b.results.addSample(groupScale+requestsSuffix, t.Program, float64(a.all))
		b.results.addSample(groupScale+requestsSuffix+kubeletSuffix, t.Program, float64(a.kubelet))
	}
	return nil
}

// join runs the joins, at most atOnce at the same time, and returns the result of each.
func (c *simulatedMachines) join(ctx context.Context, machines, atOnce int) []joinOutcome {
	outcomes := make([]joinOutcome, machines)
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range outcomes {
		group.Go(func() error {
			outcomes[i] = c.joinMachine(ctx, fmt.Sprintf("sim%d", i+1))
			return nil
		})
	}
	// The functions return no errors: a failed join does not stop the others.
	_ = group.Wait()
	return outcomes
}

func (c *simulatedMachines) joinMachine(ctx context.Context, machine string) joinOutcome {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	r, err := c.host.Join(ctx,
		append([]string{"sh", "/usr/local/lib/machine.sh", machine}, c.joinCommand...), io.Discard)
	if err == nil {
		return joinOutcome{result: r}
	}
	if log, unread := c.host.ReadFile("/var/machines/" + machine + ".log"); unread == nil {
		err = fmt.Errorf("%w\nits kubelet: %s", err, log)
	}
	return joinOutcome{err: err}
}
