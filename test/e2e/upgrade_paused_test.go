//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kubeadm/test/nodes"
)

// pauseNextEtcd stops the process of the next etcd that starts on a node right after its start, as
// a disk that answers nothing does.
const pauseNextEtcd = `
old=" $(pgrep --exact etcd | tr '\n' ' ') "
for i in $(seq 6000); do
  for pid in $(pgrep --exact etcd); do
    case "$old" in *" $pid "*) ;; *) kill -STOP $pid; echo $pid >/root/paused; exit 0;; esac
  done
  sleep 0.01
done
exit 1
`

// TestUpgradeWithPausedEtcd pauses the new etcd of an upgrade that is killed then. The same command
// does not restore the previous etcd, however long the new one takes, and resumes once it runs.
func TestUpgradeWithPausedEtcd(t *testing.T) {
	inFullRun(t, "two minutes")
	parallel(t)
	n := newUpstreamOlderCluster(t).cp // with an older etcd
	createWitness(t, n)
	older := etcdImage(t, n)
	writeFile(t, n, "/root/pause.sh", pauseNextEtcd)
	paused := make(chan error, 1)
	go func() {
		_, err := n.Run(t.Context(), "sh", "/root/pause.sh")
		paused <- err
	}()
	written := false
	result, killed := runInterrupted(t, n, unix.SIGKILL, func(line string) bool {
		change, ok := doneChange(line)
		written = written || strings.Contains(change, "/etc/kubernetes/manifests/etcd.yaml")
		return ok && written && strings.Contains(change, "kubelet")
	}, upgradeCommand(upgradeTarget)...)
	if !killed {
		t.Fatalf("it was not killed:\n%s", result.Stdout)
	}
	must(t, <-paused)
	newer := etcdImage(t, n)
	if newer == older {
		t.Fatalf("etcd keeps its image %s", older)
	}

	// The same command gives up in time, more than a minute, and leaves everything for the next run.
	writeFile(t, n, "/root/upgrade.yaml", `apiVersion: kubeadm.k8s.io/v1beta4
kind: UpgradeConfiguration
apply: {kubernetesVersion: `+upgradeTarget+`, forceUpgrade: true, ignorePreflightErrors: [`+
		nodes.IgnoredPreflight+`]}
timeouts: {upgradeManifests: 70s}
`)
	checkFails(t, n, []string{"resuming the replacement of the static Pod of etcd",
		"re-run the command to resume"}, kubeadm, "upgrade", "apply", "--config=/root/upgrade.yaml")
	if image := etcdImage(t, n); image != newer {
		t.Errorf("etcd was put back to %s", image)
	}
	if runShell(t, n, "ls /etc/kubernetes/tmp/kubeadm-journal/replacing-etcd.json") == "" {
		t.Error("the record is gone")
	}
	runShell(t, n, "kill -CONT $(cat /root/paused) || true") // the kubelet may have restarted it
	runCommand(t, n, upgradeCommand(upgradeTarget)...)
	if image := etcdImage(t, n); image != newer {
		t.Errorf("etcd was put back to %s", image)
	}
	awaitWitness(t, n)
	checkNothingReplaced(t, n)
	checkRunningVersion(t, n, upgradeTarget)
	checkControlPlaneNode(t, n)
}

// etcdImage is the image in the manifest of etcd.
func etcdImage(t *testing.T, n *nodes.Node) string {
	t.Helper()
	return strings.TrimSpace(runShell(t, n, "grep image: /etc/kubernetes/manifests/etcd.yaml"))
}
