//go:build e2e

package e2e

import (
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// TestResetInterruptedAtEveryChange kills a reset at each of its changes, and at any moment. Each
// time the same command leaves nothing, and the machine is a node again after it.
func TestResetInterruptedAtEveryChange(t *testing.T) {
	t.Parallel()
	inFullRun(t, "minutes")
	t.Run("control plane", func(t *testing.T) {
		parallel(t)
		n := addNode(t, newCluster(t), "cp1")
		config := nodes.InitConfig(nodes.Config{Address: n.Address()})
		interruptReset(t, n, func() {
			_, err := n.Init(t.Context(), config, io.Discard)
			must(t, err)
		})
	})
	t.Run("worker", func(t *testing.T) {
		parallel(t)
		s := &testCluster{Cluster: newCluster(t)}
		must(t, s.addNodes(t.Context()))
		must(t, s.initAndJoin(t.Context()))
		runCommand(t, s.worker, kubeadm, "reset", "--force")
		interruptReset(t, s.worker, func() {
			kubectl(t, s.cp, "delete", "node", "--ignore-not-found", "worker1")
			_, err := s.worker.Join(t.Context(), s.workerJoin, io.Discard)
			must(t, err)
		})
	})
}

// interruptReset creates a node again and again, kills its reset each time somewhere else, and
// repeats the command.
func interruptReset(t *testing.T, n *nodes.Node, create func()) {
	t.Helper()
	before := takeFingerprint(t, n)
	command := []string{kubeadm, "reset", "--force", "-v=1"}
	finish := func() {
		runCommand(t, n, command...)
		awaitRestored(t, n, before)
	}
	started, changes := time.Now(), 0
	for ; ; changes++ {
		create()
		result, killed := runInterrupted(t, n, unix.SIGKILL, atChange(changes), command...)
		if !killed && result.Code != 0 {
			t.Fatalf("it failed:\n%s%s", result.Stdout, result.Stderr)
		}
		finish()
		if !killed {
			break
		}
		t.Logf("%s: killed after:%s", n.Name(), indentLines(lastLines(result.Stdout, 1)))
	}
	if changes == 0 {
		t.Error("it was never interrupted")
	}
	for range 3 {
		create()
		runKilledAtAnyMoment(t, n, time.Second, command)
		finish()
	}
	t.Logf("%s: killed at each of %d changes, in %s", n.Name(), changes,
		time.Since(started).Round(time.Second))
}

// TestResetAfterInterruptedUpgrade kills an upgrade when it has replaced the manifest of etcd, that
// of kube-apiserver, and when it changes the cluster. A reset leaves nothing but the backups, and
// the machine is a control plane node again after it.
func TestResetAfterInterruptedUpgrade(t *testing.T) {
	parallel(t)
	inFullRun(t, "minutes")
	n := addNode(t, newOlderCluster(t), "cp1")
	useOlder(t, n)
	runCommand(t, n, "mkdir", "/root/patches")
	writeFile(t, n, "/root/patches/etcd0+json.yaml", // both releases have the same etcd
		"- {op: add, path: /spec/containers/0/command/-, value: --max-txn-ops=10001}\n")
	before := takeFingerprint(t, n)
	config := nodes.InitConfig(nodes.Config{Address: n.Address(), Version: olderVersion(t)})
	create := func() {
		_, err := n.Init(t.Context(), config, io.Discard)
		must(t, err)
		must(t, n.Cluster().PodNetwork(t.Context(), n))
		must(t, n.AwaitReady(t.Context(), 1))
	}
	upgrade := upgradeCommand(upgradeTarget, "--patches=/root/patches")
	for _, at := range []string{"file \"/etc/kubernetes/manifests/etcd.yaml",
		"file \"/etc/kubernetes/manifests/kube-apiserver.yaml",
		"ConfigMap kube-system/kubeadm-config"} {
		create()
		result, killed := runInterrupted(t, n, unix.SIGKILL, func(line string) bool {
			change, ok := doneChange(line)
			return ok && strings.Contains(change, at)
		}, upgrade...)
		if !killed {
			t.Fatalf("it was not killed at %s:\n%s%s", at, result.Stdout, result.Stderr)
		}
		t.Logf("killed after:%s", indentLines(lastLines(result.Stdout, 1)))
		t.Logf("it left %q", strings.Fields(runShell(t, n,
			"ls /etc/kubernetes/tmp /etc/kubernetes/tmp/kubeadm-journal")))
		runCommand(t, n, kubeadm, "reset", "--force")
		awaitRestored(t, n, before, "/etc/kubernetes/tmp")
	}
	create()
	createWitness(t, n)
	runCommand(t, n, upgrade...)
	checkRunningVersion(t, n, upgradeTarget)
	awaitWitness(t, n)
	runCommand(t, n, kubeadm, "reset", "--force", "--cleanup-tmp-dir")
	awaitRestored(t, n, before)
}
