//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// newOlderHACluster is a cluster of three control planes and two workers of the older release that
// upstream's kubeadm of that release made.
func newOlderHACluster(t *testing.T) *haCluster {
	t.Helper()
	s := &haCluster{testCluster: testCluster{Cluster: newOlderCluster(t)},
		initProgram: olderUpstreamKubeadm}
	if err := s.createNodes(t.Context(), 3, 2); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.Nodes() {
		if err := n.UseOlder(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.initFirst(t.Context(), nodes.Config{Version: olderVersion(t)}); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.controlPlanes[1:] {
		runCommand(t, n, controlPlaneJoinCommand(olderUpstreamKubeadm, s)...)
	}
	for _, n := range s.workers {
		runCommand(t, n, workerJoinCommand(olderUpstreamKubeadm, &s.testCluster)...)
	}
	if err := awaitClusterReady(t.Context(), s.cp, 5); err != nil {
		t.Fatal(err)
	}
	return s
}

// load is a client that writes and reads an object through the load balancer, ten times a second.
type load struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	requests, failed int
	gap              time.Duration // the longest time without a successful request
	last             string        // the last value that was written
}

func startLoad(t *testing.T, cp, n *nodes.Node) *load {
	t.Helper()
	kubectl(t, cp, "create", "configmap", "load", "--from-literal=value=0")
	const kubeconfig = "/root/load.conf"
	writeFile(t, n, kubeconfig, readFile(t, cp, "/etc/kubernetes/admin.conf"))
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel}
	good := time.Now()
	l.done.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			value := fmt.Sprint(i)
			_, err := n.Run(ctx, "kubectl", "--kubeconfig="+kubeconfig, "patch", "configmap",
				"load", "--request-timeout=5s", "--patch", `{"data": {"value": "`+value+`"}}`)
			if ctx.Err() != nil {
				return
			}
			l.requests++
			if err != nil {
				l.failed++
			} else {
				l.last = value
				l.gap = max(l.gap, time.Since(good))
				good = time.Now()
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	return l
}

func (l *load) stop() {
	l.cancel()
	l.done.Wait()
}

// TestUpgradeHA upgrades a highly available cluster that upstream's kubeadm made, node by node,
// under load.
func TestUpgradeHA(t *testing.T) {
	if !suite.full {
		t.Skip("takes four minutes: make e2e-full")
	}
	s := newOlderHACluster(t)
	// The order is that of the documentation: a control plane node that comes before "apply" is
	// refused.
	upgradeNode := []string{kubeadm, "upgrade", "node",
		"--ignore-preflight-errors=" + nodes.IgnoredPreflight, "-v=1"}
	checkFails(t, s.controlPlanes[1], []string{"nothing to upgrade to", "kubeadm upgrade apply"},
		upgradeNode...)
	containers := map[string]string{}
	for _, n := range s.workers {
		containers[n.Name()] = workloadContainers(t, n)
	}
	l := startLoad(t, s.cp, s.worker)
	upgrade := func(n *nodes.Node, command []string) {
		started := time.Now()
		result, err := n.Run(t.Context(), command...)
		if err != nil {
			l.stop()
			t.Fatal(err)
		}
		t.Logf("%s upgraded in %s", n.Name(), time.Since(started).Round(100*time.Millisecond))
		behind := slices.Index(s.controlPlanes, n) >= 0 && n != s.controlPlanes[2]
		if skipped := strings.Contains(result.Stdout, "skipped until the API servers"); skipped != behind {
			t.Errorf("%s: the addons were skipped: %t, want %t", n.Name(), skipped, behind)
		}
	}
	upgrade(s.cp, upgradeCommand(upgradeTarget))
	upgrade(s.controlPlanes[1], upgradeNode)
	upgrade(s.controlPlanes[2], upgradeNode)
	l.stop()
	t.Logf("of %d requests %d failed; the longest gap was %s", l.requests, l.failed,
		l.gap.Round(10*time.Millisecond))
	if got := kubectl(t, s.cp, "get", "configmap", "load",
		"--output=jsonpath={.data.value}"); got != l.last {
		t.Errorf("the value is %s, but %s was written last", got, l.last)
	}
	for _, n := range s.workers {
		runCommand(t, n, upgradeNode...)
		if now := workloadContainers(t, n); now != containers[n.Name()] {
			t.Logf("containers of %s were\n%s\nand are\n%s", n.Name(), containers[n.Name()], now)
		}
	}
	for _, n := range s.controlPlanes {
		checkRunningVersion(t, n, upgradeTarget)
	}
	checkVotingMembers(t, s.controlPlanes...)
}

// workloadContainers lists the processes of the pause containers, one for each Pod.
func workloadContainers(t *testing.T, n *nodes.Node) string {
	t.Helper()
	return runShell(t, n, "pgrep -x pause | sort -n | tr '\\n' ' '")
}
