package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
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

// machineTimeout limits one of many joins: with hundreds at once each takes minutes, and kubeadm has
// limits of its own.
const machineTimeout = 30 * time.Minute

// simulatedMachines are many simulated machines that join one cluster.
type simulatedMachines struct {
	planes      []*nodes.Node // the control planes
	host        *nodes.Node   // that all machines are on
	joinCommand []string      // for machines
	group       *nodes.Group  // of their programs; nil: that of this process
	gate        *gate         // that they wait at; nil: none
	atOnce      int
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
	c := &simulatedMachines{atOnce: b.atOnce}
	err = c.createCluster(ctx, cluster, b.storm.controlPlanes, b.kubelets)
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
	planes, machines int) error {
	names := []string{"machines"}
	for i := range planes {
		names = append(names, fmt.Sprintf("cp%d", i+1))
	}
	added, err := cluster.AddAll(ctx, names...)
	if err != nil {
		return err
	}
	c.host, c.planes = added[0], added[1:]
	for _, cp := range c.planes {
		if err := cp.WriteFile(auditDir+"/policy.yaml", []byte(auditPolicy), 0o600); err != nil {
			return err
		}
	}
	if err := c.createMachines(ctx, machines); err != nil {
		return err
	}
	config := nodes.Config{Address: c.planes[0].Address(), Cluster: auditConfig + manyNodes}
	if planes > 1 {
		if config.Endpoint, err = c.startBalancer(ctx); err != nil {
			return err
		}
	}
	if err := c.createControlPlanes(ctx, nodes.InitConfig(config)); err != nil {
		return err
	}
	if err := awaitReady(ctx, c.planes...); err != nil {
		return err
	}
	return c.planes[0].AwaitDNS(ctx)
}

// manyNodes sets a Pod CIDR size that is enough for a thousand nodes.
const manyNodes = `controllerManager:
  extraArgs:
  - name: node-cidr-mask-size
    value: "26"
`

// createMachines creates the machines on their node, and the control planes' routes to them.
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
	for _, cp := range c.planes {
		if _, err := cp.Run(ctx, "ip", "route", "add", machineNetwork, "via",
			c.host.Address()); err != nil {
			return err
		}
	}
	return nil
}

// measureJoins joins the machines and records the results. If one join fails there are no figures
// of all of them, except how many requests were rejected and how many control planes restarted.
func (b *bench) measureJoins(ctx context.Context, t turn, c *simulatedMachines) error {
	storm, err := b.beginStorm(ctx, c)
	if err != nil {
		return err
	}
	begun := time.Now()
	outcomes := c.join(ctx, b.kubelets)
	storm.joinsDone()
	if c.gate != nil {
		begun = c.gate.begun(begun)
	}
	complete := !slices.ContainsFunc(outcomes, func(o joinOutcome) bool { return o.err != nil })
	if complete {
		err = c.planes[0].AwaitNodes(ctx, b.storm.controlPlanes+b.kubelets)
	}
	duration := time.Since(begun)
	restarts, failed := storm.end()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, o := range outcomes {
		b.results.addRun(t, groupScale, o.result, o.err)
	}
	b.results.addSample(groupScale+restartsSuffix, t.Program, float64(restarts))
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	requests := joinRequests{balanced: b.storm.controlPlanes > 1, since: begun, planes: c.planes}
	if err := requests.readAll(); err != nil {
		return err
	}
	rejected := requests.total().rejected
	b.log("  %s: %d requests were answered 429, %d control planes restarted", groupScale, rejected,
		restarts)
	b.results.addSample(groupScale+rejectedSuffix, t.Program, float64(rejected))
	if !complete {
		return nil
	}
	rate := float64(b.kubelets) / duration.Minutes()
	b.log("  %s: %.0f a minute", groupScale, rate)
	b.results.addSample(groupScale+rateSuffix, t.Program, rate)
	return b.addRequests(t, requests)
}

// addRequests records the number of each machine's requests to the API server; behind a load
// balancer, which hides the machines' addresses, the mean.
func (b *bench) addRequests(t turn, requests joinRequests) error {
	add := func(all, kubelet float64) {
		b.results.addSample(groupScale+requestsSuffix, t.Program, all)
		b.results.addSample(groupScale+requestsSuffix+kubeletSuffix, t.Program, kubelet)
	}
	if requests.balanced {
		sum, machines := requests.total(), float64(b.kubelets)
		add(float64(sum.all)/machines, float64(sum.kubelet)/machines)
		return nil
	}
	if len(requests.counts) != b.kubelets {
		return fmt.Errorf("the API server's audit log has requests of %d machines, want %d",
			len(requests.counts), b.kubelets)
	}
	for _, address := range slices.SortedFunc(maps.Keys(requests.counts), netip.Addr.Compare) {
		add(float64(requests.counts[address].all), float64(requests.counts[address].kubelet))
	}
	return nil
}

// join runs the joins, at most atOnce at the same time, and returns the result of each.
func (c *simulatedMachines) join(ctx context.Context, machines int) []joinOutcome {
	outcomes := make([]joinOutcome, machines)
	var group errgroup.Group
	group.SetLimit(c.atOnce)
	for i := range outcomes {
		group.Go(func() error {
			outcomes[i] = c.joinMachine(ctx, i+1)
			return nil
		})
	}
	// The functions return no errors: a failed join does not stop the others.
	_ = group.Wait()
	return outcomes
}

// addressOfMachine returns the address that machines.sh gives to a machine, counted from 1.
func addressOfMachine(number int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 78, byte(number / 250), byte(number%250 + 2)})
}

func (c *simulatedMachines) joinMachine(ctx context.Context, number int) joinOutcome {
	machine := fmt.Sprintf("sim%d", number)
	cmd := c.host.Command(slices.Concat([]string{"sh", "/usr/local/lib/machine.sh", machine}, c.joinCommand,
		[]string{"--ignore-preflight-errors=" + nodes.IgnoredPreflight})...)
	cmd.Group = c.group
	if c.gate != nil {
		cmd.Env = []string{"KUBELET_STARTS_LATER=true"}
		c.gate.enter(addressOfMachine(number))
		defer c.gate.pass(addressOfMachine(number))
	}
	ctx, cancel := context.WithTimeout(ctx, machineTimeout)
	defer cancel()
	started := time.Now()
	r, err := runMeasured(ctx, cmd, memoryIntervalAmong(c.atOnce))
	if c.gate != nil {
		r.Duration = time.Since(c.gate.begun(started))
	}
	if err == nil {
		return joinOutcome{result: r}
	}
	// Where machine.sh has the machine's directory of logs.
	file := "/var/machines/" + machine + "/" + filepath.Base(runLog.FindString(r.Stderr))
	if log, unread := c.host.ReadFile(file); unread == nil {
		err = fmt.Errorf("%w\nits log: %s", err, lastPart(log))
	}
	if log, unread := c.host.ReadFile("/var/machines/" + machine + ".log"); unread == nil {
		err = fmt.Errorf("%w\nits kubelet: %s", err, lastPart(log))
	}
	return joinOutcome{err: err}
}

// runLog is the log of a run, which its error names.
var runLog = regexp.MustCompile(`/var/log/kubeadm/join-\S+\.log`)

// lastPart returns the end of a log.
func lastPart(log []byte) []byte {
	const limit = 4000
	return log[max(len(log)-limit, 0):]
}
