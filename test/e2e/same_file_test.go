//go:build e2e

package e2e

import (
	"testing"

	"kubeadm/test/nodes"
)

// TestEtcdKeepsRunningAcrossCommands runs on a joined control plane what kubespray runs there in an
// upgrade: upgrade node, then a phase of init that writes the same manifest.
func TestEtcdKeepsRunningAcrossCommands(t *testing.T) {
	inFullRun(t, "a minute")
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	if err := s.createFirst(t.Context(), 2, 0, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	n := s.controlPlanes[1]
	if err := s.joinNodes(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	checkVotingMembers(t, s.controlPlanes...)
	writeFile(t, n, initConfigFile,
		nodes.InitConfig(nodes.Config{Address: n.Address(), Endpoint: s.balancer.Endpoint()}))
	const manifest = "/etc/kubernetes/manifests/etcd.yaml"
	process := func() string { return runShell(t, n, "pidof etcd") }
	before, pid := readFile(t, n, manifest), process()
	upgrade := []string{"upgrade", "node", "--ignore-preflight-errors=" + nodes.IgnoredPreflight}
	for _, command := range [][]string{upgrade,
		{"init", "phase", "etcd", "local", "--config", initConfigFile},
		{"init", "phase", "control-plane", "all", "--config", initConfigFile},
		upgrade} {
		runCommand(t, n, append([]string{kubeadm}, command...)...)
		if after := readFile(t, n, manifest); after != before {
			t.Errorf("%v changed etcd's manifest from\n%s\nto\n%s", command, before, after)
		}
	}
	if now := process(); now != pid {
		t.Errorf("etcd was restarted: its process was %s and is %s", pid, now)
	}
	checkVotingMembers(t, s.controlPlanes...)
}
