//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strings"
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

// fileTime matches the time in the name of a backup and of the kubelet's client certificate.
var fileTime = regexp.MustCompile(`\d{4}(-\d\d){5}`)

// changeWatch finds the changes in the output of runs that none has made before.
type changeWatch struct {
	done map[string]time.Duration // of each change, when the run that was first had made it
	last string                   // the newest of them
}

// inRun returns a function that reports whether a line of the run that begins now is a new change.
func (w *changeWatch) inRun() func(line string) bool {
	if w.done == nil {
		w.done = map[string]time.Duration{}
	}
	began := time.Now()
	return func(line string) bool {
		change, ok := doneChange(line)
		change = fileTime.ReplaceAllString(change, "TIME")
		if _, before := w.done[change]; before || !ok {
			return false
		}
		w.done[change], w.last = time.Since(began), change
		return true
	}
}

// interruptAtEveryChange runs a command again and again, until it succeeds. Each run is interrupted
// when it has made a change that no run before has made. After each interruption the API server of
// cp answers, without the command being run again; cp is nil if it cannot.
func interruptAtEveryChange(t *testing.T, with interruption, n, cp *nodes.Node, command []string) {
	t.Helper()
	var w changeWatch
	started := time.Now()
	for runUntilNewChange(t, n, &w, command) {
		with.after(t, n)
		if cp != nil {
			awaitWitness(t, cp)
		}
	}
	t.Logf("%s: %s at each of %d changes, in %s", n.Name(), with.name, len(w.done),
		time.Since(started).Round(time.Second))
}

// runUntilNewChange runs a command and kills it at its first new change. It reports whether there
// was one; otherwise the command has succeeded.
func runUntilNewChange(t *testing.T, n *nodes.Node, w *changeWatch, command []string) bool {
	t.Helper()
	const most = 150
	result, killed := runInterrupted(t, n, unix.SIGKILL, w.inRun(), command...)
	switch {
	case len(w.done) > most:
		t.Fatalf("%s: still not finished, after %d changes", n.Name(), len(w.done))
	case killed:
		t.Logf("%s: killed after %s and:%s", n.Name(), result.Duration.Round(time.Second/10),
			indentLines(lastLines(result.Stdout, 1)))
		return true
	case result.Code != 0:
		t.Fatalf("%s: it failed after %d changes:\n%s%s", n.Name(), len(w.done), result.Stdout,
			result.Stderr)
	case len(w.done) == 0:
		t.Error("it was never interrupted")
	}
	checkNothingReplaced(t, n)
	return false
}

// slowestRerun is how much longer a run after a kill may take, in uninterrupted runs. The aim is 15
// seconds on a machine that does nothing else; the table in the log shows what it is.
const slowestRerun = 4

// measureReruns runs a command again and again at once, until it succeeds, and kills each run at its
// first new change. When it makes the next new one is compared with the uninterrupted run on another
// node of the kind: what follows takes both the same time.
func measureReruns(t *testing.T, n, like *nodes.Node, command []string) {
	t.Helper()
	var whole, w changeWatch
	watch := whole.inRun()
	result, _ := runInterrupted(t, like, unix.SIGKILL, func(line string) bool {
		watch(line)
		return false
	}, command...)
	if result.Code != 0 {
		t.Fatalf("%s: uninterrupted:\n%s%s", like.Name(), result.Stdout, result.Stderr)
	}
	var table strings.Builder
	add := func(after string, took, usual time.Duration) {
		extra := took - usual
		fmt.Fprintf(&table, "%8.1f %8.1f %+8.1f   %s\n", took.Seconds(), usual.Seconds(),
			extra.Seconds(), after)
		if extra > slowestRerun*result.Duration {
			t.Errorf("%s: killed after %q, the next run takes %s longer than one of %s", n.Name(),
				after, extra.Round(time.Second/10), result.Duration.Round(time.Second/10))
		}
	}
	after, unknown := "(the first run)", 0
	for {
		began := time.Now()
		if !runUntilNewChange(t, n, &w, command) {
			add(after, time.Since(began), result.Duration)
			break
		}
		if usual, ok := whole.done[w.last]; ok {
			add(after, w.done[w.last], usual)
		} else {
			unknown++
			fmt.Fprintf(&table, "%8.1f %8s %8s   %s\n", w.done[w.last].Seconds(), "-", "-", after)
		}
		after = w.last
	}
	t.Logf("%s: killed at each of %d changes and run again at once; an uninterrupted run takes %s. "+
		"Seconds until the next new change, of an uninterrupted run, more than that; killed after:\n%s",
		n.Name(), len(w.done), result.Duration.Round(time.Second/10), table.String())
	if unknown > len(w.done)/2 {
		t.Errorf("%d of %d changes are not those of the uninterrupted run", unknown, len(w.done))
	}
}

// TestUpgradeRerunAtOnce kills an upgrade at every change, and measures how long the same command
// takes then.
func TestUpgradeRerunAtOnce(t *testing.T) {
	inFullRun(t, "ten minutes")
	parallel(t)
	like, n := newUpstreamOlderCluster(t).cp, newUpstreamOlderCluster(t).cp
	createWitness(t, n)
	measureReruns(t, n, like, upgradeCommand(upgradeTarget))
	awaitWitness(t, n)
	checkRunningVersion(t, n, upgradeTarget)
	checkControlPlaneNode(t, n)
}

// TestUpgradeInterruptedAtEveryChange interrupts upgrades of a cluster with a single control plane
// node and an older etcd.
func TestUpgradeInterruptedAtEveryChange(t *testing.T) {
	t.Parallel()
	inFullRun(t, "ten minutes")
	for _, with := range interruptions {
		t.Run(with.name, func(t *testing.T) {
			parallel(t)
			n := newUpstreamOlderCluster(t).cp // with an older etcd
			createWitness(t, n)
			interruptAtEveryChange(t, with, n, n, upgradeCommand(upgradeTarget))
			checkRunningVersion(t, n, upgradeTarget)
			checkUpgradeToSameVersion(t, n)
			checkControlPlaneNode(t, n)
		})
	}
}

// TestUpgradeNodeInterruptedAtEveryChange interrupts "upgrade node" on control plane nodes and
// workers of a highly available cluster. After the kills the same command follows at once.
func TestUpgradeNodeInterruptedAtEveryChange(t *testing.T) {
	inFullRun(t, "ten minutes")
	s := newOlderHAClusterOf(t, olderUpstreamKubeadm(t), 4, 3)
	createWitness(t, s.cp)
	runCommand(t, s.cp, upgradeCommand(upgradeTarget)...)
	for _, n := range s.workers { // whose configuration is that of the cluster, so that nothing would change
		runShell(t, n, "echo 'maxPods: 99' >> /var/lib/kubelet/config.yaml")
	}
	measureReruns(t, s.controlPlanes[1], s.controlPlanes[2], upgradeNodeCommand())
	measureReruns(t, s.workers[0], s.workers[1], upgradeNodeCommand())
	powerCut := interruptions[1]
	interruptAtEveryChange(t, powerCut, s.controlPlanes[3], s.cp, upgradeNodeCommand())
	interruptAtEveryChange(t, powerCut, s.workers[2], s.cp, upgradeNodeCommand())
	awaitWitness(t, s.cp)
	for _, n := range s.controlPlanes {
		checkRunningVersion(t, n, upgradeTarget)
	}
	checkVotingMembers(t, s.controlPlanes...)
}
