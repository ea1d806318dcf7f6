//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// TestUpgradeThroughThreeMinors upgrades a cluster from v1.34 in one run to the minor before the
// newest, then to the newest, and its kubelets after that. A workload answers all the way.
func TestUpgradeThroughThreeMinors(t *testing.T) {
	parallel(t)
	if !suite.full {
		t.Skip("needs the components of all minors: make e2e-full")
	}
	if len(suite.oldest) != 2 {
		t.Fatalf("KUBEADM_BUNDLES_OLDEST must name two bundles, got %q", suite.oldest)
	}
	bundles := append(slices.Clone(suite.oldest), suite.older)
	var versions []string
	for _, bundle := range bundles {
		version, err := nodes.ReleaseOf(bundle)
		must(t, err)
		versions = append(versions, version)
	}
	o := testOptions(t)
	o.Older = bundles
	s := &testCluster{Cluster: newClusterOf(t, o)}
	must(t, s.addNodes(t.Context()))
	for _, n := range []*nodes.Node{s.cp, s.worker} {
		must(t, n.UseRelease(t.Context(), versions[0]))
	}
	initial, err := s.cp.Init(t.Context(),
		nodes.InitConfig(nodes.Config{Address: s.cp.Address(), Version: versions[0]}), io.Discard)
	must(t, err)
	s.workerJoin, _, err = nodes.JoinCommands(initial.Stdout)
	must(t, err)
	runCommand(t, s.worker, workerJoinCommand(kubeadm, s)...)
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	startWorkload(t, s.cp)
	containers := workloadContainers(t, s.cp)
	stop := probeWorkload(t, s)

	// A jump is refused with the commands that lead there.
	checkFails(t, s.cp, []string{"kubeadm upgrade apply " + upgradeTarget,
		"--via", "v1.35"}, upgradeCommand(upgradeTarget)...)
	checkRunningVersion(t, s.cp, versions[0])
	runCommand(t, s.cp, upgradeCommand(versions[2], "--via", versions[1])...)
	checkRunningVersion(t, s.cp, versions[2])
	runCommand(t, s.cp, upgradeCommand(upgradeTarget)...)
	checkRunningVersion(t, s.cp, upgradeTarget)
	stop()
	if now := workloadContainers(t, s.cp); now != containers {
		t.Errorf("the containers of the workload were\n%s\nand are\n%s", containers, now)
	}
	// The kubelets are three minors behind until now.
	for _, n := range []*nodes.Node{s.cp, s.worker} {
		runCommand(t, n, upgradeNodeCommand()...)
		must(t, n.UseRelease(t.Context(), versions[2]))
	}
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	checkControlPlaneNode(t, s.cp)
}

// probeWorkload calls the Service of startWorkload from the worker until the returned function is called; it reports calls that failed.
func probeWorkload(t *testing.T, s *testCluster) (stop func()) {
	t.Helper()
	url := "http://" + kubectl(t, s.cp, "get", "service", "web",
		"--output=jsonpath={.spec.clusterIP}")
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	calls := 0
	var failed []string
	done.Go(func() {
		for ctx.Err() == nil {
			result, err := s.worker.Run(ctx, "curl", "--silent", "--show-error", "--fail",
				"--max-time", "5", url)
			if ctx.Err() == nil {
				calls++
				if err != nil {
					failed = append(failed, fmt.Sprint(err, result.Stderr))
				}
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	return func() {
		cancel()
		done.Wait()
		t.Logf("%d calls of the workload", calls)
		if len(failed) > 0 || calls == 0 {
			t.Errorf("of %d calls of the workload %d failed:\n%s", calls, len(failed),
				strings.Join(failed, "\n"))
		}
	}
}
