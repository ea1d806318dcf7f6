//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestS199_PeerJoinsOurControlPlanes lets upstream's kubeadm make a control plane of our cluster, and compares it with one
// of ours.
func TestS199_PeerJoinsOurControlPlanes(t *testing.T) {
	s := high(t)
	n, like := add(t, s.Cluster, "guest-plane"), s.planes[1]
	joined, err := n.Run(t.Context(), planeCommand(peer, s)...)
	if err != nil {
		t.Fatal(err)
	}
	holdsPhrases(t, "join of a control plane", joined)
	admit(t, s, n)
	if guest, ours := filesOf(t, n).names(), filesOf(t, like).names(); !slices.Equal(guest, ours) {
		t.Errorf("the peer's control plane has the files%s\nbut ours%s", lines("%s", guest), lines("%s", ours))
	}
	for _, name := range []string{
		"/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/manifests/kube-controller-manager.yaml",
		"/etc/kubernetes/manifests/kube-scheduler.yaml", "/etc/kubernetes/manifests/etcd.yaml",
		"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/instance-config.yaml", "/var/lib/kubelet/kubeadm-flags.env",
	} {
		guest, ours := neutral(t, n, name), neutral(t, like, name)
		if guest != ours {
			t.Errorf("%s of the peer's control plane is\n%s\nbut that of ours\n%s", name, guest, ours)
		}
	}
	dismiss(t, s, peer, n)
}

// neutral reads a file without the names and addresses that two machines cannot have the same, and without the list of
// members that were there before.
func neutral(t *testing.T, n *nodes.Node, name string) string {
	t.Helper()
	text := strings.NewReplacer(n.Name(), "NAME", n.Address(), "ADDRESS").Replace(read(t, n, name))
	var all []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "--initial-cluster=") {
			all = append(all, line)
		}
	}
	return strings.Join(all, "")
}

// TestS199_OurControlPlaneJoinsThePeers lets ours make a control plane of upstream's cluster, and the peer's leave by ours.
func TestS199_OurControlPlaneJoinsThePeers(t *testing.T) {
	if !lab.full {
		t.Skip("takes a minute: make e2e-full")
	}
	s := &trio{site: site{Cluster: newCluster(t)}, by: peer}
	if err := s.begin(t.Context(), 3, 0, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := s.enter(t.Context(), s.planes[1:]...); err != nil {
		t.Fatal(err)
	}
	vote(t, s.planes...)
	if err := settle(t.Context(), s.cp, 3); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.planes {
		whole(t, s, n)
	}
	dismiss(t, s, peer, s.planes[2])
	dismiss(t, s, ours, s.planes[1])
	run(t, s.cp, ours, "reset", "--force")
}
