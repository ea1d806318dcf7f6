//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// trio is a Kubernetes cluster of several control planes, usually three, behind a load balancer, and some workers.
type trio struct {
	site       // cp is the first control plane, worker the first worker
	balancer   *nodes.Balancer
	planes     []*nodes.Node
	workers    []*nodes.Node
	invitation []string                // for control planes to join, as init printed it
	by         string                  // the program that does init; empty: ours
	outside    *nodes.Etcd             // nil: each control plane has a member of etcd
	entered    map[string]nodes.Result // of every other node's join -v=1, by name
}

// high is the cluster of three control planes and two workers that tests share. What a failed test leaves is not used again.
func high(t *testing.T) *trio {
	t.Helper()
	if lab.high == nil {
		s, err := formHigh(t.Context())
		lab.high = s
		if err != nil {
			lab.failed = true
			if err := lab.closeHigh(); err != nil {
				t.Error(err)
			}
			t.Fatal("the shared cluster of three control planes did not come up:", err)
		}
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		lab.failed = true
		if err := lab.closeHigh(); err != nil {
			t.Error(err)
		}
	})
	lab.high.lend(t, flagOf(t, lab.high.invitation, "--certificate-key"))
	return lab.high
}

func formHigh(ctx context.Context) (*trio, error) {
	c, err := nodes.NewCluster(context.Background(), sharedOptions())
	if err != nil {
		return nil, err
	}
	s := &trio{site: site{Cluster: c}}
	if err := s.begin(ctx, 3, 2, nodes.Config{}); err != nil {
		return s, err
	}
	// What follows must do without it: it is for emergencies.
	if _, err := s.cp.Run(ctx, "rm", "/etc/kubernetes/super-admin.conf"); err != nil {
		return s, err
	}
	if err := s.enter(ctx, s.planes[1:]...); err != nil {
		return s, err
	}
	if err := s.enter(ctx, s.workers...); err != nil {
		return s, err
	}
	return s, settle(ctx, s.cp, 5)
}

// begin makes the nodes and the load balancer, and the first control plane of a cluster that lends its certificates.
func (s *trio) begin(ctx context.Context, planes, workers int, config nodes.Config) error {
	if err := s.raise(ctx, planes, workers); err != nil {
		return err
	}
	return s.start(ctx, config)
}

// raise makes the nodes and the load balancer.
func (s *trio) raise(ctx context.Context, planes, workers int) error {
	var names []string
	for i := range planes {
		names = append(names, fmt.Sprintf("cp%d", i+1))
	}
	for i := range workers {
		names = append(names, fmt.Sprintf("worker%d", i+1))
	}
	added, err := s.AddAll(ctx, names...)
	if err != nil {
		return err
	}
	s.planes, s.workers, s.cp = added[:planes], added[planes:], added[0]
	if workers > 0 {
		s.worker = s.workers[0]
	}
	if s.balancer, err = s.Balance(ctx); err != nil {
		return err
	}
	return s.balancer.Serve(s.planes...)
}

// start makes the first control plane of a cluster that lends its certificates.
func (s *trio) start(ctx context.Context, config nodes.Config) (err error) {
	if s.outside != nil {
		if err := s.outside.Admit(s.cp); err != nil {
			return err
		}
		config.Cluster += s.outside.Config()
	}
	config.Address, config.Endpoint = s.cp.Address(), s.balancer.Endpoint()
	if err := s.cp.WriteFile(goodFile, []byte(nodes.InitConfig(config)), 0o600); err != nil {
		return err
	}
	s.lent = time.Now()
	init := []string{cmp.Or(s.by, ours), "init", "--config", goodFile, "--upload-certs", "-v=1"}
	if s.initial, err = s.cp.Run(ctx, init...); err != nil {
		return err
	}
	s.command, s.invitation, err = nodes.JoinCommands(s.initial.Stdout)
	if err == nil && s.invitation == nil {
		err = fmt.Errorf("init printed no command for control planes:\n%s", s.initial.Stdout)
	}
	return err
}

// enter lets nodes join at the same instant, each as what it is.
func (s *trio) enter(ctx context.Context, all ...*nodes.Node) error {
	joins := make(map[*nodes.Node][]string)
	for _, n := range all {
		joins[n] = slices.Clone(s.command)
		if slices.Contains(s.planes, n) {
			joins[n] = slices.Clone(s.invitation)
		}
		joins[n] = append(joins[n], "-v=1")
	}
	results, err := atOnce(ctx, joins)
	if s.entered == nil {
		s.entered = make(map[string]nodes.Result)
	}
	for n, result := range results {
		s.entered[n.Name()] = result
	}
	return err
}

// times logs how long the joins took.
func (s *trio) times(t *testing.T) {
	t.Helper()
	for name, result := range s.entered {
		t.Logf("%s joined in %s", name, result.Duration.Round(100*time.Millisecond))
	}
}

// atOnce starts a join on each node at the same instant and waits for all of them.
func atOnce(ctx context.Context, joins map[*nodes.Node][]string) (map[*nodes.Node]nodes.Result, error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	var failed error
	results := make(map[*nodes.Node]nodes.Result)
	for n, command := range joins {
		all.Go(func() {
			result, err := n.Join(ctx, command, io.Discard)
			mu.Lock()
			defer mu.Unlock()
			results[n] = result
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%w\nit had said:\n%s", err, result.Stdout))
			}
		})
	}
	all.Wait()
	return results, failed
}

// planeCommand is a command that joins a machine to the cluster as a control plane, with the checks left out that nodes
// cannot pass. The program is ours or the peer's.
func planeCommand(program string, s *trio, more ...string) []string {
	args := slices.Clone(s.invitation)
	args[0] = program
	return append(append(args, "--ignore-preflight-errors="+nodes.IgnoredPreflight), more...)
}

// without takes a flag and its value out of a command.
func without(command []string, flag string) []string {
	i := slices.Index(command, flag)
	return slices.Concat(command[:i], command[i+2:])
}

// awaitAPI waits until a control plane's own API server is ready, or says so of a part of it.
func awaitAPI(t *testing.T, cp *nodes.Node, part string) {
	t.Helper()
	await(t, "the API server of "+cp.Name(), patience, func() error {
		result, err := cp.Kubectl(t.Context(), "--server=https://"+cp.Address()+":6443", "get", "--raw", "/readyz"+part)
		if said := strings.TrimSpace(result.Stdout); err == nil && said != "ok" {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
}

// dismiss lets a control plane leave by reset, which must take its member along, and throws the machine away.
func dismiss(t *testing.T, s *trio, program string, n *nodes.Node) {
	t.Helper()
	run(t, n, program, "reset", "--force")
	seat(t, s, slices.DeleteFunc(slices.Clone(s.planes), func(other *nodes.Node) bool { return other == n })...)
	vote(t, s.planes...)
	bury(t, s, n)
}

// seat says who the cluster's control planes are, to the load balancer too.
func seat(t *testing.T, s *trio, planes ...*nodes.Node) {
	t.Helper()
	s.planes = planes
	if err := s.balancer.Serve(planes...); err != nil {
		t.Fatal(err)
	}
}

// bury removes what the API knows of a node and throws the machine away.
func bury(t *testing.T, s *trio, n *nodes.Node) {
	t.Helper()
	if err := s.Scrap(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	// A kubelet that still ran might register after this.
	kubectl(t, s.cp, "delete", "node", "--ignore-not-found", strings.ToLower(n.Name()))
}

// admit makes a node one of the cluster's control planes in the eyes of all that follows, and checks it.
func admit(t *testing.T, s *trio, n *nodes.Node) {
	t.Helper()
	seat(t, s, append(slices.Clone(s.planes), n)...)
	vote(t, s.planes...)
	awaitMember(t, &s.site, n)
	whole(t, s, n)
}
