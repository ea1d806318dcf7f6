//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestUpstreamJoinsOurControlPlanes joins a control plane to our cluster with upstream's kubeadm,
// and compares it with one of ours.
func TestUpstreamJoinsOurControlPlanes(t *testing.T) {
	s := sharedHACluster(t)
	n, like := addNode(t, s.Cluster, "guest-plane"), s.controlPlanes[1]
	joined, err := n.Run(t.Context(), controlPlaneJoinCommand(upstreamKubeadm, s)...)
	if err != nil {
		t.Fatal(err)
	}
	checkPhrases(t, "join of a control plane", withoutLibraryLog(joined))
	addControlPlane(t, s, n)
	if guest, ours := listFiles(t, n).list(),
		listFiles(t, like).list(); !slices.Equal(guest, ours) {
		t.Errorf("upstream's control plane has the files%s\nbut ours%s", indentLines(guest),
			indentLines(ours))
	}
	for _, name := range []string{
		"/etc/kubernetes/manifests/kube-apiserver.yaml",
		"/etc/kubernetes/manifests/kube-controller-manager.yaml",
		"/etc/kubernetes/manifests/kube-scheduler.yaml", "/etc/kubernetes/manifests/etcd.yaml",
		"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml",
		"/var/lib/kubelet/kubeadm-flags.env",
	} {
		guest, ours := readComparable(t, n, name), readComparable(t, like, name)
		if guest != ours {
			t.Errorf("%s of upstream's control plane is\n%s\nbut that of ours\n%s", name, guest,
				ours)
		}
	}
	resetAndDestroy(t, s, upstreamKubeadm, n)
}

// readComparable reads a file with the machine's name and address replaced, and without the list
// of etcd members, so that files of two machines can be compared.
func readComparable(t *testing.T, n *nodes.Node, name string) string {
	t.Helper()
	text := strings.NewReplacer(n.Name(), "NAME", n.Address(),
		"ADDRESS").Replace(readFile(t, n, name))
	var all []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "--initial-cluster=") {
			all = append(all, line)
		}
	}
	return strings.Join(all, "")
}

// TestControlPlaneJoinUpstreamCluster joins our control planes to upstream's cluster, and resets
// some with upstream's kubeadm and some with ours.
func TestControlPlaneJoinUpstreamCluster(t *testing.T) {
	inFullRun(t, "a minute")
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}, initProgram: upstreamKubeadm}
	if err := s.createFirst(t.Context(), 3, 0, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := s.joinNodes(t.Context(), s.controlPlanes[1:]...); err != nil {
		t.Fatal(err)
	}
	checkVotingMembers(t, s.controlPlanes...)
	if err := awaitClusterReady(t.Context(), s.cp, 3); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.controlPlanes {
		checkControlPlane(t, s, n)
	}
	resetAndDestroy(t, s, upstreamKubeadm, s.controlPlanes[2])
	resetAndDestroy(t, s, kubeadm, s.controlPlanes[1])
	runCommand(t, s.cp, kubeadm, "reset", "--force")
}
