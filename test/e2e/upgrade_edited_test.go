//go:build e2e

package e2e

import (
	"io"
	"strings"
	"testing"
	"time"

	"kubeadm/test/nodes"
)

// TestUpgradeShowsManualChanges upgrades a control plane whose manifest was edited.
func TestUpgradeShowsManualChanges(t *testing.T) {
	parallel(t)
	inFullRun(t, "a minute")
	n := newOlderControlPlane(t)
	const edit = "--max-requests-inflight=401"
	const manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	// The file is moved into place, as editors do.
	runShell(t, n, "cd /etc/kubernetes && sed 's/^    - --allow-privileged=true$/&\\n    - "+edit+
		"/' manifests/kube-apiserver.yaml > edited && mv edited manifests/kube-apiserver.yaml")
	if !strings.Contains(readFile(t, n, manifest), edit) {
		t.Fatal("the manifest was not edited")
	}
	await(t, "the edited API server", waitLimit, func() error {
		_, err := n.Run(t.Context(), "pgrep", "-f", "--", edit)
		if err == nil {
			_, err = n.Kubectl(t.Context(), "get", "nodes")
		}
		return err
	})
	diff := runCommand(t, n, kubeadm, "upgrade", "diff", upgradeTarget)
	if !strings.Contains(diff, "changed manually") || !strings.Contains(diff, edit) {
		t.Errorf("the diff does not show the manual change:\n%s", diff)
	}
	before := listFiles(t, n)
	checkFails(t, n, []string{"manifests were changed manually: kube-apiserver", "--patches",
		"--fail-on-manual-changes"}, upgradeCommand(upgradeTarget, "--fail-on-manual-changes")...)
	if changed := changedFiles(before, listFiles(t, n)); len(changed) > 0 {
		t.Errorf("the refused upgrade changed %s", changed)
	}
	result, err := n.Run(t.Context(), upgradeCommand(upgradeTarget)...)
	must(t, err)
	if all := result.Stdout + result.Stderr; !strings.Contains(all, manifest+" was changed manually") ||
		!strings.Contains(all, "+    - "+edit) {
		t.Errorf("the upgrade does not show the manual change:\n%s", all)
	}
	checkRunningVersion(t, n, upgradeTarget)
	runShell(t, n, "grep -rl -e "+edit+" /etc/kubernetes/tmp/kubeadm-backup-manifests-*")
}

// TestUpgradeKeepsAddonsAway upgrades a cluster whose addons are disabled, and resets it.
func TestUpgradeKeepsAddonsAway(t *testing.T) {
	parallel(t)
	inFullRun(t, "a minute")
	started := time.Now()
	s := &testCluster{Cluster: newOlderCluster(t)}
	must(t, s.addNodes(t.Context()))
	useOlder(t, s.cp, s.worker)
	initial, err := s.cp.Init(t.Context(), nodes.InitConfig(nodes.Config{Address: s.cp.Address(),
		Version: olderVersion(t), Cluster: "dns: {disabled: true}\nproxy: {disabled: true}"}),
		io.Discard)
	must(t, err)
	s.workerJoin, _, err = nodes.JoinCommands(initial.Stdout)
	must(t, err)
	runCommand(t, s.worker, workerJoinCommand(kubeadm, s)...)
	runCommand(t, s.cp, upgradeCommand(upgradeTarget, ignoreNotReady)...)
	runCommand(t, s.worker, upgradeNodeCommand()...)
	checkRunningVersion(t, s.cp, upgradeTarget)
	checkNoAddons(t, s.cp)
	if config := kubectl(t, s.cp, "--namespace=kube-system", "get", "configmap", "kubeadm-config",
		"--output=jsonpath={.data}"); strings.Count(config, "disabled: true") != 2 {
		t.Errorf("the addons are no longer disabled: %s", config)
	}
	for _, n := range []*nodes.Node{s.worker, s.cp} {
		runCommand(t, n, kubeadm, "reset", "--force")
	}
	t.Logf("init, join, upgrade and reset took %s", time.Since(started).Round(time.Second))
}

// TestUpgradeWithoutAddonConfigMaps joins a worker to a cluster whose addons were removed, and
// upgrades it without them.
func TestUpgradeWithoutAddonConfigMaps(t *testing.T) {
	parallel(t)
	inFullRun(t, "a minute")
	s := &testCluster{Cluster: newOlderCluster(t)}
	must(t, s.addNodes(t.Context()))
	useOlder(t, s.cp, s.worker)
	initial, err := s.cp.Init(t.Context(), nodes.InitConfig(nodes.Config{Address: s.cp.Address(),
		Version: olderVersion(t)}), io.Discard)
	must(t, err)
	s.workerJoin, _, err = nodes.JoinCommands(initial.Stdout)
	must(t, err)
	for _, object := range []string{"configmap/kube-proxy", "configmap/coredns",
		"daemonset/kube-proxy", "deployment/coredns", "service/kube-dns"} {
		kubectl(t, s.cp, "--namespace=kube-system", "delete", object)
	}
	runCommand(t, s.worker, workerJoinCommand(kubeadm, s)...)
	runCommand(t, s.cp, upgradeCommand(upgradeTarget, ignoreNotReady, "--skip-phases=addon")...)
	runCommand(t, s.worker, upgradeNodeCommand()...)
	checkRunningVersion(t, s.cp, upgradeTarget)
	checkNoAddons(t, s.cp)
}

// checkNoAddons checks that neither CoreDNS nor kube-proxy was deployed.
func checkNoAddons(t *testing.T, cp *nodes.Node) {
	t.Helper()
	if found := kubectl(t, cp, "--namespace=kube-system", "get",
		"deployments,daemonsets,services,configmaps", "--output=name"); strings.Contains(found,
		"kube-proxy") || strings.Contains(found, "dns") {
		t.Errorf("addons were deployed:\n%s", found)
	}
}
