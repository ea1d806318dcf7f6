//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// createWitness creates an object that must survive.
func createWitness(t *testing.T, cp *nodes.Node) {
	t.Helper()
	kubectl(t, cp, "create", "configmap", "witness", "--from-literal=a=b")
}

// awaitWitness waits until the API server answers and knows the object of createWitness. One that
// has just started may not know anybody's rights yet.
func awaitWitness(t *testing.T, cp *nodes.Node) {
	t.Helper()
	await(t, "the object that was there before", waitLimit, func() error {
		result, err := cp.Kubectl(t.Context(), "get", "configmap", "witness",
			"--output=jsonpath={.data.a}")
		if err == nil && result.Stdout != "b" {
			err = fmt.Errorf("it holds %q", result.Stdout)
		}
		return err
	})
}

// checkNothingReplaced checks that no record of an unfinished replacement of static Pods is left.
func checkNothingReplaced(t *testing.T, n *nodes.Node) {
	t.Helper()
	if left := runShell(t, n,
		"ls /etc/kubernetes/tmp/kubeadm-journal | grep replacing || true"); left != "" {
		t.Errorf("%s: left are %s", n.Name(), left)
	}
}

// upgradeNodeCommand is "kubeadm upgrade node".
func upgradeNodeCommand() []string {
	return []string{kubeadm, "upgrade", "node",
		"--ignore-preflight-errors=" + nodes.IgnoredPreflight, "-v=1"}
}

// interruption stops a command in the middle of its work, together with the node or without it.
type interruption struct {
	name  string
	after func(t *testing.T, n *nodes.Node) // when the command was killed
}

var interruptions = []interruption{
	{"kill", func(*testing.T, *nodes.Node) {}},
	{"power cut", func(t *testing.T, n *nodes.Node) {
		must(t, n.Kill(t.Context()))
		must(t, n.Boot(t.Context()))
	}},
}

// fileTime matches the time in the name of the kubelet's client certificate.
var fileTime = regexp.MustCompile(`\d{4}(-\d\d){5}`)

// interruptAtEveryChange runs a command again and again, until it succeeds. Each run is interrupted
// when it has made a change that no run before has made. After each interruption the API server of
// cp answers, without the command being run again; cp is nil if it cannot.
func interruptAtEveryChange(t *testing.T, with interruption, n, cp *nodes.Node, command []string) {
	t.Helper()
	done := map[string]bool{}
	atNewChange := func(line string) bool {
		change, ok := doneChange(line)
		change = fileTime.ReplaceAllString(change, "TIME")
		isNew := ok && !done[change]
		done[change] = true
		return isNew
	}
	started := time.Now()
	for range 150 {
		result, killed := runInterrupted(t, n, unix.SIGKILL, atNewChange, command...)
		if !killed && result.Code != 0 {
			t.Fatalf("%s: it failed after %d changes:\n%s%s", n.Name(), len(done), result.Stdout,
				result.Stderr)
		}
		if !killed {
			t.Logf("%s: %s at each of %d changes, in %s", n.Name(), with.name, len(done),
				time.Since(started).Round(time.Second))
			if len(done) == 0 {
				t.Error("it was never interrupted")
			}
			checkNothingReplaced(t, n)
			return
		}
		t.Logf("%s: %s after %s and:%s", n.Name(), with.name, result.Duration.Round(time.Second/10),
			indentLines(lastLines(result.Stdout, 1)))
		with.after(t, n)
		if cp != nil {
			awaitWitness(t, cp)
		}
	}
	t.Fatalf("%s: still not finished, after %d changes", n.Name(), len(done))
}

// TestUpgradeInterruptedAtEveryChange interrupts upgrades of a cluster with a single control plane
// node.
func TestUpgradeInterruptedAtEveryChange(t *testing.T) {
	t.Parallel()
	inFullRun(t, "ten minutes")
	for _, with := range interruptions {
		t.Run(with.name, func(t *testing.T) {
			parallel(t)
			n := newOlderControlPlane(t)
			createWitness(t, n)
			interruptAtEveryChange(t, with, n, n, upgradeCommand(upgradeTarget))
			checkRunningVersion(t, n, upgradeTarget)
			checkUpgradeToSameVersion(t, n)
			checkControlPlaneNode(t, n)
		})
	}
}

// TestUpgradeNodeInterruptedAtEveryChange interrupts "upgrade node" on control plane nodes and
// workers of a highly available cluster.
func TestUpgradeNodeInterruptedAtEveryChange(t *testing.T) {
	inFullRun(t, "ten minutes")
	s := newOlderHACluster(t, kubeadm)
	createWitness(t, s.cp)
	runCommand(t, s.cp, upgradeCommand(upgradeTarget)...)
	for i, with := range interruptions {
		interruptAtEveryChange(t, with, s.controlPlanes[i+1], s.cp, upgradeNodeCommand())
		interruptAtEveryChange(t, with, s.workers[i], s.cp, upgradeNodeCommand())
	}
	for _, n := range s.controlPlanes {
		checkRunningVersion(t, n, upgradeTarget)
	}
	checkVotingMembers(t, s.controlPlanes...)
}
