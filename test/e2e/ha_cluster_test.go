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

// haCluster is a Kubernetes cluster of several control planes, usually three, behind a load
// balancer.
type haCluster struct {
	testCluster      // cp is the first control plane, worker the first worker
	balancer         *nodes.Balancer
	controlPlanes    []*nodes.Node
	workers          []*nodes.Node
	controlPlaneJoin []string                // for control planes to join, as init printed it
	initProgram      string                  // the program that does init; empty: ours
	externalEtcd     *nodes.Etcd             // nil: each control plane has a member of etcd
	joinResults      map[string]nodes.Result // of every other node's join -v=1, by name
}

// sharedHACluster returns the cluster of three control planes and two workers that tests share,
// when it is this test's turn.
func sharedHACluster(t *testing.T) *haCluster {
	t.Helper()
	s := suite.sharedHA.forTest(t)
	s.refreshUploadedCertificates(t, flagValue(t, s.controlPlaneJoin, "--certificate-key"))
	return s
}

func createSharedHACluster(ctx context.Context, o nodes.Options) (*haCluster, error) {
	c, err := nodes.NewCluster(context.Background(), o)
	if err != nil {
		return nil, err
	}
	s := &haCluster{testCluster: testCluster{Cluster: c}}
	if err := s.createFirst(ctx, 3, 2, nodes.Config{}); err != nil {
		return s, err
	}
	// It is for emergencies; everything else must work without it.
	if _, err := s.cp.Run(ctx, "rm", "/etc/kubernetes/super-admin.conf"); err != nil {
		return s, err
	}
	if err := s.joinNodes(ctx, s.controlPlanes[1:]...); err != nil {
		return s, err
	}
	if err := s.joinNodes(ctx, s.workers...); err != nil {
		return s, err
	}
	return s, awaitClusterReady(ctx, s.cp, 5)
}

// createFirst creates the nodes and the load balancer, and runs init on the first control plane.
func (s *haCluster) createFirst(ctx context.Context, planes, workers int,
	config nodes.Config) error {
	if err := s.createNodes(ctx, planes, workers); err != nil {
		return err
	}
	return s.initFirst(ctx, config)
}

// createNodes creates the nodes and the load balancer.
func (s *haCluster) createNodes(ctx context.Context, planes, workers int) error {
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
	s.controlPlanes, s.workers, s.cp = added[:planes], added[planes:], added[0]
	if workers > 0 {
		s.worker = s.workers[0]
	}
	if s.balancer, err = s.StartBalancer(ctx); err != nil {
		return err
	}
	return s.balancer.SetBackends(s.controlPlanes...)
}

// initFirst runs init on the first control plane, with its certificates uploaded.
func (s *haCluster) initFirst(ctx context.Context, config nodes.Config) (err error) {
	if s.externalEtcd != nil {
		if err := s.externalEtcd.InstallClientCertificate(s.cp); err != nil {
			return err
		}
		config.Cluster += s.externalEtcd.Config()
	}
	config.Address, config.Endpoint = s.cp.Address(), s.balancer.Endpoint()
	if err := s.cp.WriteFile(initConfigFile, []byte(nodes.InitConfig(config)), 0o600); err != nil {
		return err
	}
	s.uploadedAt = time.Now()
	init := []string{cmp.Or(s.initProgram, kubeadm), "init", "--config", initConfigFile,
		"--upload-certs", "-v=1"}
	if s.initResult, err = s.cp.Run(ctx, init...); err != nil {
		return err
	}
	s.workerJoin, s.controlPlaneJoin, err = nodes.JoinCommands(s.initResult.Stdout)
	if err == nil && s.controlPlaneJoin == nil {
		err = fmt.Errorf("init printed no command for control planes:\n%s", s.initResult.Stdout)
	}
	return err
}

// joinNodes joins nodes at the same time, each as a control plane or as a worker.
func (s *haCluster) joinNodes(ctx context.Context, all ...*nodes.Node) error {
	joins := make(map[*nodes.Node][]string)
	for _, n := range all {
		joins[n] = slices.Clone(s.workerJoin)
		if slices.Contains(s.controlPlanes, n) {
			joins[n] = slices.Clone(s.controlPlaneJoin)
		}
		joins[n] = append(joins[n], "-v=1")
	}
	results, err := joinAtOnce(ctx, joins)
	if s.joinResults == nil {
		s.joinResults = make(map[string]nodes.Result)
	}
	for n, result := range results {
		s.joinResults[n.Name()] = result
	}
	return err
}

// logJoinTimes logs how long the joins took.
func (s *haCluster) logJoinTimes(t *testing.T) {
	t.Helper()
	for name, result := range s.joinResults {
		t.Logf("%s joined in %s", name, result.Duration.Round(100*time.Millisecond))
	}
}

// joinAtOnce starts a join on each node at the same time and waits for all of them.
func joinAtOnce(ctx context.Context,
	joins map[*nodes.Node][]string) (map[*nodes.Node]nodes.Result, error) {
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
				failed = errors.Join(failed, fmt.Errorf("%w\noutput:\n%s", err, result.Stdout))
			}
		})
	}
	all.Wait()
	return results, failed
}

// controlPlaneJoinCommand returns a command that joins a machine as a control plane and ignores
// the preflight checks that nodes cannot pass. The program is kubeadm or upstreamKubeadm.
func controlPlaneJoinCommand(program string, s *haCluster, more ...string) []string {
	args := slices.Clone(s.controlPlaneJoin)
	args[0] = program
	return append(append(args, "--ignore-preflight-errors="+nodes.IgnoredPreflight), more...)
}

// withoutFlag removes a flag and its value from a command.
func withoutFlag(command []string, flag string) []string {
	i := slices.Index(command, flag)
	return slices.Concat(command[:i], command[i+2:])
}

// awaitAPI waits until a control plane's own API server is ready, or one check of its /readyz.
func awaitAPI(t *testing.T, cp *nodes.Node, part string) {
	t.Helper()
	await(t, "the API server of "+cp.Name(), waitLimit, func() error {
		result, err := cp.Kubectl(t.Context(), "--server=https://"+cp.Address()+":6443", "get",
			"--raw", "/readyz"+part)
		if said := strings.TrimSpace(result.Stdout); err == nil && said != "ok" {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
}

// resetAndDestroy resets a control plane, checks that its etcd member is gone, and destroys the
// machine.
func resetAndDestroy(t *testing.T, s *haCluster, program string, n *nodes.Node) {
	t.Helper()
	runCommand(t, n, program, "reset", "--force")
	setControlPlanes(t, s,
		slices.DeleteFunc(slices.Clone(s.controlPlanes),
			func(other *nodes.Node) bool { return other == n })...)
	checkVotingMembers(t, s.controlPlanes...)
	destroyNode(t, s, n)
}

// setControlPlanes sets the cluster's control planes, also in the load balancer.
func setControlPlanes(t *testing.T, s *haCluster, planes ...*nodes.Node) {
	t.Helper()
	s.controlPlanes = planes
	if err := s.balancer.SetBackends(planes...); err != nil {
		t.Fatal(err)
	}
}

// destroyNode destroys a machine and deletes its Node.
func destroyNode(t *testing.T, s *haCluster, n *nodes.Node) {
	t.Helper()
	if err := s.DestroyNode(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	// Only now: a running kubelet would register again.
	kubectl(t, s.cp, "delete", "node", "--ignore-not-found", strings.ToLower(n.Name()))
}

// addControlPlane adds a node that has joined to the cluster's control planes, and checks it.
func addControlPlane(t *testing.T, s *haCluster, n *nodes.Node) {
	t.Helper()
	setControlPlanes(t, s, append(slices.Clone(s.controlPlanes), n)...)
	checkVotingMembers(t, s.controlPlanes...)
	awaitJoined(t, &s.testCluster, n)
	checkControlPlane(t, s, n)
}
