//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestExternalEtcd creates control planes with etcd on separate nodes, and uploads the client
// certificate for it. A full run has three etcd members and three control planes.
func TestExternalEtcd(t *testing.T) {
	parallel(t)
	s := &haCluster{testCluster: testCluster{Cluster: newCluster(t)}}
	names, planes, workers := []string{"etcd1"}, 2, 0
	if suite.full {
		names, planes, workers = []string{"etcd1", "etcd2", "etcd3"}, 3, 2
	}
	members, err := s.AddAll(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	if s.externalEtcd, err = nodes.StartEtcd(t.Context(), members...); err != nil {
		t.Fatal(err)
	}
	if err := s.createFirst(t.Context(), planes, workers, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.controlPlanes[1:] {
		if err := s.joinNodes(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.joinNodes(t.Context(), s.workers...); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.controlPlanes {
		checkControlPlaneNode(t, n)
		if files := strings.Join(listFiles(t, n).list(), "\n"); strings.Contains(files,
			"etcd.yaml") || strings.Contains(files, "etcd/ca.key") {
			t.Errorf("%s has files of a local etcd:\n%s", n.Name(), files)
		}
		awaitAPI(t, n, "/etcd")
	}
	if err := awaitClusterReady(t.Context(), s.cp, planes+workers); err != nil {
		t.Fatal(err)
	}
	if found := listEtcdMembers(t, s.cp); len(found) != len(names) || found[0].Status != "healthy" || found[0].DBSize == 0 {
		t.Errorf("members %+v", found)
	}
	runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "save", "/root/external.db")
	if said := runCommand(t, s.cp, kubeadm, "etcd", "snapshot", "status", "/root/external.db"); !strings.Contains(strings.Join(strings.Fields(said), " "),
		"CHECKSUM verified") {
		t.Error(said)
	}
	checkFails(t, s.cp, []string{"kubeadm does not run the members of an external etcd"}, kubeadm, "etcd", "defrag")
	last := s.controlPlanes[len(s.controlPlanes)-1]
	runCommand(t, last, kubeadm, "reset", "--force")
	await(t, "the API without "+last.Name(), waitLimit, func() error {
		_, err := s.cp.Kubectl(t.Context(), "get", "--raw", "/readyz")
		return err
	})
}
