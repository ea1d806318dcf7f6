//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// olderUpstreamKubeadm is upstream's kubeadm of the older release.
func olderUpstreamKubeadm(t *testing.T) string {
	t.Helper()
	return nodes.ReleasePrograms(olderVersion(t)) + "/kubeadm-upstream"
}

// newUpstreamOlderCluster is a cluster of the older release that upstream's kubeadm of that release
// made, with a control plane node and a worker.
func newUpstreamOlderCluster(t *testing.T) *testCluster {
	t.Helper()
	s := &testCluster{Cluster: newOlderCluster(t)}
	if err := s.addNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	useOlder(t, s.cp, s.worker)
	writeFile(t, s.cp, initConfigFile,
		nodes.InitConfig(nodes.Config{Address: s.cp.Address(), Version: olderVersion(t)}))
	initial, err := s.cp.Run(t.Context(), olderUpstreamKubeadm(t), "init", "--config", initConfigFile,
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
	if err != nil {
		t.Fatal(err)
	}
	if s.workerJoin, _, err = nodes.JoinCommands(initial.Stdout); err != nil {
		t.Fatal(err)
	}
	runCommand(t, s.worker, workerJoinCommand(olderUpstreamKubeadm(t), s)...)
	if err := awaitClusterReady(t.Context(), s.cp, 2); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUpgradeApply upgrades a cluster that upstream's kubeadm of the previous minor made.
func TestUpgradeApply(t *testing.T) {
	parallel(t)
	s := newUpstreamOlderCluster(t)
	const target = upgradeTarget
	before := listFiles(t, s.cp)
	diff := runCommand(t, s.cp, kubeadm, "upgrade", "diff", target)
	for _, want := range []string{"kube-apiserver:" + target, "etcd.yaml", "coredns:v1.14.6",
		"kubernetesVersion: " + target} {
		if !strings.Contains(diff, want) {
			t.Errorf("the diff does not show %s:\n%s", want, diff)
		}
	}
	if strings.Contains(diff, "changed manually") {
		t.Errorf("upstream's manifests count as changed manually:\n%s", diff)
	}
	runCommand(t, s.cp, upgradeCommand(target, "--dry-run")...)
	if changed := changedFiles(before, listFiles(t, s.cp)); len(changed) > 0 {
		t.Errorf("the dry run changed %s", changed)
	}
	started := time.Now()
	result, err := s.cp.Run(t.Context(), upgradeCommand(target)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("upgraded in %s:\n%s", time.Since(started).Round(time.Millisecond), result.Stdout)
	if warned := result.Stderr; strings.Contains(warned, "changed manually") {
		t.Errorf("unexpected warnings:\n%s", warned)
	}
	if diff := runCommand(t, s.cp, kubeadm, "upgrade", "diff"); diff != "" {
		t.Errorf("after the upgrade there is still a difference:\n%s", diff)
	}
	runCommand(t, s.worker, kubeadm, "upgrade", "node",
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
	for _, component := range []string{"kube-apiserver", "kube-controller-manager",
		"kube-scheduler"} {
		await(t, "the Pod of "+component, waitLimit, func() error {
			image := kubectl(t, s.cp, "--namespace=kube-system", "get", "pod", component+"-cp1",
				"--output=jsonpath={.spec.containers[0].image} {.status.phase}")
			if !strings.Contains(image, component+":"+target+" Running") {
				return fmt.Errorf("it is %s", image)
			}
			return nil
		})
	}
	checkControlPlaneNode(t, s.cp)
	checkUpgradeToSameVersion(t, s.cp)
	t.Run("its snapshot", func(t *testing.T) {
		inFullRun(t, "half a minute")
		kubectl(t, s.cp, "create", "configmap", "after-upgrade")
		snapshot := strings.Fields(runShell(t, s.cp, "ls -tr /etc/kubernetes/tmp/kubeadm-backup-etcd-*/snapshot.db"))[0]
		t.Log(runCommand(t, s.cp, kubeadm, "etcd", "restore", snapshot, "--yes", "-v=1"))
		if found := kubectl(t, s.cp, "get", "configmap", "after-upgrade", "--ignore-not-found"); found != "" {
			t.Errorf("something is newer than the snapshot: %s", found)
		}
		must(t, awaitClusterReady(t.Context(), s.cp, 2))
	})
}

// checkUpgradeToSameVersion upgrades a control plane node to the version that it has. No static Pod
// is replaced, and no manifest counts as changed manually.
func checkUpgradeToSameVersion(t *testing.T, n *nodes.Node, more ...string) {
	t.Helper()
	result, err := n.Run(t.Context(), upgradeCommand(upgradeTarget, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	for _, unwanted := range []string{"changed manually", "replacing the static Pod"} {
		if strings.Contains(result.Stdout+result.Stderr, unwanted) {
			t.Errorf("%s: an upgrade to the same version says %q:\n%s%s", n.Name(), unwanted,
				result.Stderr, result.Stdout)
		}
	}
}
