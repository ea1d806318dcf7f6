package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/netip"
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
	hold              bool
	programs          string // names, separated by commas
}

// check refuses settings without a meaning, and all if nothing joins at scale.
func (s stormSettings) check(atScale bool) error {
	isDefault := s == stormSettings{controlPlanes: 1, programs: ours + "," + upstream}
	switch {
	case s.controlPlanes != 1 && s.controlPlanes != 3:
		return fmt.Errorf("--control-planes %d: want 1 or 3", s.controlPlanes)
	case !atScale && !isDefault:
		return fmt.Errorf("--control-planes, --pressure, --restart, --hold and --programs are for --only %s",
			groupScale)
	case s.hold && s.controlPlanes == 1:
		return errors.New("--hold needs the load balancer of --control-planes 3")
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
	if b.storm.hold {
		if err := c.holdMachines(ctx, min(b.kubelets, b.atOnce), b.log); err != nil {
			s.relieve()
			return nil, err
		}
	}
	if b.storm.restart {
		s.group.Go(func() {
			if c.gate != nil {
				<-c.gate.opened
			}
			s.err = s.restartAll(ctx)
		})
	}
	return s, nil
}

// joinsShare is the CPU time of all machines together, in percent of that of one control plane, while the CPUs
// are busy. Machines of their own would take none from the control planes.
const joinsShare = 50

// joinConfigFile is the configuration of join, on the node that all machines are on.
const joinConfigFile = "/var/machines/join.yaml"

// holdMachines prepares that machines wait for each other before their first requests. They wait for minutes, for
// which the default timeouts are not made.
func (c *simulatedMachines) holdMachines(ctx context.Context, expected int, log func(string, ...any)) error {
	cluster := c.host.Cluster()
	group, err := cluster.CreateGroup("machines", joinsShare)
	if err != nil {
		return err
	}
	config, err := patientJoin(c.joinCommand)
	if err != nil {
		return err
	}
	if err := c.host.WriteFile(joinConfigFile, []byte(config), 0o600); err != nil {
		return err
	}
	balancer, err := cluster.StartBalancer(ctx) // the running one
	if err != nil {
		return err
	}
	g := newGate(expected)
	release := balancer.Hold(netip.MustParsePrefix(machineNetwork), g.pass)
	begun := time.Now()
	g.release = func() {
		log("  %d machines have connected after %.0f s", expected, time.Since(begun).Seconds())
		release()
	}
	c.joinCommand = []string{"kubeadm", "join", "--config", joinConfigFile}
	c.group, c.gate = group, g
	return nil
}

// patientJoin returns the configuration of a join command with longer timeouts.
func patientJoin(command []string) (string, error) {
	token, err := valueIn(command, "--token")
	if err != nil {
		return "", err
	}
	hash, err := valueIn(command, "--discovery-token-ca-cert-hash")
	if err != nil {
		return "", err
	}
	endpoint, err := valueIn(command, "join")
	return fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: %s
    token: %s
    caCertHashes: [%q]
timeouts:
  discovery: 20m0s
  tlsBootstrap: 20m0s
`, endpoint, token, hash), err
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

// restartTimeout limits the restart of one control plane while hundreds of machines share its CPUs.
const restartTimeout = 10 * time.Minute

// restartControlPlane restarts the control plane on a node and waits until its API server is ready,
// for which the node's etcd member must be.
func restartControlPlane(ctx context.Context, cp *nodes.Node) error {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
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
	if r.Scale.Held {
		b.WriteString("Their connections were held until all had connected: times and joins per minute are from then.\n")
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
