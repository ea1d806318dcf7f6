//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// newOlderHACluster is a cluster of three control planes and two workers of the older release that
// a kubeadm made.
func newOlderHACluster(t *testing.T, program string) *haCluster {
	t.Helper()
	return newOlderHAClusterOf(t, program, 3, 2)
}

// newOlderHAClusterOf is newOlderHACluster with other numbers of nodes.
func newOlderHAClusterOf(t *testing.T, program string, planes, workers int) *haCluster {
	t.Helper()
	s := &haCluster{testCluster: testCluster{Cluster: newOlderCluster(t)}, initProgram: program}
	if err := s.createNodes(t.Context(), planes, workers); err != nil {
		t.Fatal(err)
	}
	useOlder(t, s.Nodes()...)
	if err := s.initFirst(t.Context(), nodes.Config{Version: olderVersion(t)}); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.controlPlanes[1:] {
		runCommand(t, n, controlPlaneJoinCommand(program, s)...)
	}
	for _, n := range s.workers {
		runCommand(t, n, workerJoinCommand(program, &s.testCluster)...)
	}
	if err := awaitClusterReady(t.Context(), s.cp, planes+workers); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUpgradeHA upgrades a highly available cluster that upstream's kubeadm made.
func TestUpgradeHA(t *testing.T) {
	inFullRun(t, "four minutes")
	s := newOlderHACluster(t, olderUpstreamKubeadm(t))
	// The order is that of the documentation: a control plane node that comes before "apply" is
	// refused.
	checkFails(t, s.controlPlanes[1], []string{"nothing to upgrade to", "kubeadm upgrade apply"},
		upgradeNodeCommand()...)
	results := upgradeUnderLoad(t, s, kubeadm)
	for i, n := range s.controlPlanes {
		skipped := strings.Contains(results[n.Name()].Stdout, "skipped until all API servers have")
		if isLast := i == len(s.controlPlanes)-1; skipped == isLast {
			t.Errorf("%s: the addons were skipped: %t, want %t", n.Name(), skipped, !isLast)
		}
	}
}

// TestUpstreamUpgradesHA upgrades with upstream's kubeadm a highly available cluster that ours made.
func TestUpstreamUpgradesHA(t *testing.T) {
	inFullRun(t, "fifteen minutes")
	upgradeUnderLoad(t, newOlderHACluster(t, kubeadm), upstreamKubeadm)
}

// upgradeUnderLoad upgrades all nodes of a highly available cluster one after the other, while a
// client writes and reads. The results are by the name of the node.
func upgradeUnderLoad(t *testing.T, s *haCluster, program string) map[string]nodes.Result {
	t.Helper()
	startWorkload(t, s.cp)
	containers := workloadContainers(t, s.cp)
	results := map[string]nodes.Result{}
	s.balancer.CheckReadiness() // as load balancers do
	l := startLoad(t, s.cp, s.worker, "--request-timeout=20s")
	defer l.stop()
	upgrade := func(n *nodes.Node, command []string) {
		result, err := n.Run(t.Context(), append([]string{program}, command[1:]...)...)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s upgraded in %s", n.Name(), result.Duration.Round(100*time.Millisecond))
		results[n.Name()] = result
	}
	upgrade(s.cp, upgradeCommand(upgradeTarget))
	for _, n := range s.controlPlanes[1:] {
		upgrade(n, upgradeNodeCommand())
	}
	if program == kubeadm {
		l.endWithoutFailure(t, s.cp)
	} else {
		l.end(t, s.cp)
	}
	for _, n := range s.workers {
		upgrade(n, upgradeNodeCommand())
	}
	if now := workloadContainers(t, s.cp); now != containers {
		t.Errorf("the containers of the workload were\n%s\nand are\n%s", containers, now)
	}
	for _, n := range s.controlPlanes {
		checkRunningVersion(t, n, upgradeTarget)
	}
	checkVotingMembers(t, s.controlPlanes...)
	for _, n := range s.controlPlanes[1:] {
		// Only init writes it.
		runCommand(t, n, "test", "!", "-e", "/etc/kubernetes/super-admin.conf")
	}
	return results
}

// startWorkload starts the Deployment "web".
func startWorkload(t *testing.T, cp *nodes.Node) {
	t.Helper()
	writeFile(t, cp, "/root/web.yaml", webManifest)
	kubectl(t, cp, "apply", "-f", "/root/web.yaml")
	kubectl(t, cp, "rollout", "status", "--timeout=180s", "deployment/web")
}

// workloadContainers lists the containers of the Pods of startWorkload.
func workloadContainers(t *testing.T, cp *nodes.Node) string {
	t.Helper()
	return kubectl(t, cp, "get", "pods", "--selector=app=web", "--sort-by=.metadata.name",
		"--output=jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].containerID}{\"\\n\"}{end}")
}
