//go:build e2e

package e2e

import (
	"io"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// removedGates configures feature gates that 1.36 accepts and that 1.37 has no more, one of the API
// server, of the kubelet and of kube-proxy.
func removedGates(config nodes.Config) string {
	config.Cluster = "apiServer:\n  extraArgs:\n  - {name: feature-gates, value: APIServerTracing=true}"
	config.Kubelet = "featureGates: {SidecarContainers: true}"
	const proxy = "kind: KubeProxyConfiguration\n"
	return strings.Replace(nodes.InitConfig(config), proxy,
		proxy+"featureGates: {PreventStaticPodAPIReferences: true}\n", 1)
}

// TestUpgradeRefusesRemovedGates has components that would not start after the upgrade.
func TestUpgradeRefusesRemovedGates(t *testing.T) {
	inFullRun(t, "a minute")
	parallel(t)
	s := &testCluster{Cluster: newOlderCluster(t)}
	must(t, s.addNodes(t.Context()))
	useOlder(t, s.cp, s.worker)
	initial, err := s.cp.Init(t.Context(), removedGates(
		nodes.Config{Address: s.cp.Address(), Version: olderVersion(t)}), io.Discard)
	must(t, err)
	s.workerJoin, _, err = nodes.JoinCommands(initial.Stdout)
	must(t, err)
	_, err = s.worker.Join(t.Context(), s.workerJoin, io.Discard)
	must(t, err)
	must(t, awaitClusterReady(t.Context(), s.cp, 2))

	lost := []string{
		"apiServer.extraArgs[0]: kube-apiserver 1.37.1 has no feature gate APIServerTracing (removed in 1.37)",
		"KubeletConfiguration featureGates: kubelet 1.37.1 has no feature gate SidecarContainers (removed in 1.37)",
		"KubeProxyConfiguration featureGates: kube-proxy 1.37.1 has no feature gate PreventStaticPodAPIReferences (removed in 1.37)",
	}
	plan, err := s.cp.Run(t.Context(), kubeadm, "upgrade", "plan", upgradeTarget)
	must(t, err)
	for _, want := range lost {
		if !strings.Contains(plan.Stderr+plan.Stdout, want) {
			t.Errorf("the plan lacks %q:\n%s%s", want, plan.Stderr, plan.Stdout)
		}
	}
	before := listFiles(t, s.cp)
	checkFails(t, s.cp, lost, upgradeCommand(upgradeTarget)...)
	if changed := changedFiles(before, listFiles(t, s.cp)); len(changed) > 0 {
		t.Errorf("the refused upgrade changed %s", changed)
	}

	// A worker is upgraded to the version that the cluster stores.
	runShell(t, s.cp, `export KUBECONFIG=/etc/kubernetes/admin.conf
kubectl -n kube-system get configmap kubeadm-config --output yaml |
  sed 's/kubernetesVersion: v1.36.3/kubernetesVersion: `+upgradeTarget+`/' | kubectl replace -f -`)
	checkFails(t, s.worker, lost[1:2], kubeadm, "upgrade", "node",
		"--ignore-preflight-errors="+nodes.IgnoredPreflight)
	if config := readFile(t, s.worker, "/var/lib/kubelet/config.yaml"); !strings.Contains(config, "SidecarContainers") {
		t.Errorf("the refused upgrade changed the configuration of the kubelet:\n%s", config)
	}
}
