package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"kubeadm/test/nodes"
)

//go:embed restart.sh
var restartScript string

// stormSettings say which programs join machines at scale, and what makes that hard for them.
type stormSettings struct {
	controlPlanes     int
	pressure, restart bool
	programs          string // names, separated by commas
}

// check refuses settings without a meaning, and all if nothing joins at scale.
func (s stormSettings) check(atScale bool) error {
	isDefault := s == stormSettings{controlPlanes: 1, programs: ours + "," + upstream}
	switch {
	case s.controlPlanes != 1 && s.controlPlanes != 3:
		return fmt.Errorf("--control-planes %d: want 1 or 3", s.controlPlanes)
	case !atScale && !isDefault:
		return fmt.Errorf("--control-planes, --pressure, --restart and --programs are for --only %s",
			groupScale)
	}
	for name := range strings.SplitSeq(s.programs, ",") {
		if name != ours && name != upstream {
			return fmt.Errorf("--programs %s: there is no program %q, but %s, %s", s.programs, name,
				ours, upstream)
		}
	}
	return nil
}

// choosePrograms returns the programs that join machines at scale.
func (s stormSettings) choosePrograms(all [2]program) []program {
	names := strings.Split(s.programs, ",")
	return slices.DeleteFunc(all[:],
		func(p program) bool { return !slices.Contains(names, p.name) })
}

// startBalancer starts the control planes' load balancer and returns its endpoint.
func (c *simulatedMachines) startBalancer(ctx context.Context) (endpoint string, err error) {
	cluster := c.host.Cluster()
	balancer, err := cluster.StartBalancer(ctx)
	if err != nil {
		return "", err
	}
	if err := balancer.SetBackends(c.planes...); err != nil {
		return "", err
	}
	balancer.CheckReadiness() // as load balancers do
	return balancer.Endpoint(), cluster.AddRoute(ctx, machineNetwork, c.host)
}

// createControlPlanes initializes the first control plane, and joins the others one by one.
func (c *simulatedMachines) createControlPlanes(ctx context.Context, config string) error {
	var flags []string
	if len(c.planes) > 1 {
		flags = []string{"--upload-certs"}
	}
	inTime, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	r, err := c.planes[0].Init(inTime, config, io.Discard, flags...)
	if err != nil {
		return err
	}
	var forPlanes []string
	if c.joinCommand, forPlanes, err = nodes.JoinCommands(r.Stdout); err != nil {
		return err
	}
	for _, cp := range c.planes[1:] {
		inTime, cancel := context.WithTimeout(ctx, commandTimeout)
		_, err := cp.Join(inTime, forPlanes, io.Discard)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// storm is what happens to the control planes while machines join.
type storm struct {
	machines *simulatedMachines
	log      func(string, ...any)
	done     chan struct{} // closed when all joins have ended
	group    sync.WaitGroup
	restarts int
	err      error // of the restarts
	relieve  func()
}

// beginStorm begins what the settings ask for.
func (b *bench) beginStorm(ctx context.Context, c *simulatedMachines) (*storm, error) {
	s := &storm{machines: c, log: b.log, done: make(chan struct{}), relieve: func() {}}
	if b.storm.pressure {
		relieve, err := c.pressurize(ctx)
		if err != nil {
			return nil, err
		}
		s.relieve = relieve
	}
	if b.storm.restart {
		s.group.Go(func() { s.err = s.restartAll(ctx) })
	}
	return s, nil
}

// joinsDone ends the storm after the restart that is in progress.
func (s *storm) joinsDone() { close(s.done) }

// end waits for the end and returns how many control planes were restarted.
func (s *storm) end() (restarts int, err error) {
	s.group.Wait()
	s.relieve()
	return s.restarts, s.err
}

// restartAll restarts the control planes one after the other, as long as machines join.
func (s *storm) restartAll(ctx context.Context) error {
	for _, cp := range s.machines.planes {
		select {
		case <-s.done:
			s.log("  the joins ended before %s was restarted: more --kubelets take longer", cp.Name())
			return nil
		default:
		}
		begun := time.Now()
		if err := restartControlPlane(ctx, cp); err != nil {
			return fmt.Errorf("restarting %s: %w", cp.Name(), err)
		}
		s.restarts++
		s.log("  %s was restarted, and ready after %.0f s", cp.Name(), time.Since(begun).Seconds())
	}
	return nil
}

// restartControlPlane restarts the control plane on a node and waits until its API server is ready,
// for which the node's etcd member must be.
func restartControlPlane(ctx context.Context, cp *nodes.Node) error {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	if _, err := cp.Run(ctx, "sh", "-c", restartScript); err != nil {
		return err
	}
	for {
		_, err := cp.Kubectl(ctx, "--server=https://"+cp.Address()+":6443", "--request-timeout=5s",
			"get", "--raw=/readyz")
		if err == nil {
			return nil
		}
		if interrupted := sleepContext(ctx, 500*time.Millisecond); interrupted != nil {
			return errors.Join(interrupted, err)
		}
	}
}

// stormNotes are the notes of what made joining hard.
func (r report) stormNotes() string {
	var b strings.Builder
	if r.Scale.ControlPlanes > 1 {
		fmt.Fprintf(&b, "They joined %d control planes behind a load balancer; requests are the mean of all machines.\n", r.Scale.ControlPlanes)
	}
	least := func(id string) float64 {
		count := -1.0
		for _, c := range r.Figures {
			for _, s := range []*summary{c.Ours, c.Upstream} {
				if c.ID == id && s != nil && (count < 0 || s.Min < count) {
					count = s.Min
				}
			}
		}
		return max(count, 0)
	}
	if r.Scale.Pressure {
		b.WriteString("The API servers' seats for joining machines were kept full for one second of four.\n")
		if least(groupScale+rejectedSuffix) == 0 {
			b.WriteString("NO PRESSURE: no request was answered 429.\n")
		}
	}
	if r.Scale.Restart && least(groupScale+restartsSuffix) < float64(r.Scale.ControlPlanes) {
		b.WriteString("Not all control planes were restarted before the joins ended.\n")
	}
	return b.String()
}
