//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"kubeadm/test/nodes"
)

// TestS023_EtcdIsOutside keeps the data of control planes on nodes that do nothing else (S088), and lends the pair of keys
// that opens it. A full run has three members and three control planes.
func TestS023_EtcdIsOutside(t *testing.T) {
	t.Parallel()
	s := &trio{site: site{Cluster: newCluster(t)}}
	names, planes, workers := []string{"etcd1"}, 2, 0
	if lab.full {
		names, planes, workers = []string{"etcd1", "etcd2", "etcd3"}, 3, 2
	}
	members, err := s.AddAll(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	if s.outside, err = nodes.StartEtcd(t.Context(), members...); err != nil {
		t.Fatal(err)
	}
	if err := s.begin(t.Context(), planes, workers, nodes.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.planes[1:] {
		if err := s.enter(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.enter(t.Context(), s.workers...); err != nil {
		t.Fatal(err)
	}
	for _, n := range s.planes {
		marked(t, n)
		if files := strings.Join(filesOf(t, n).names(), "\n"); strings.Contains(files, "etcd.yaml") || strings.Contains(files, "etcd/ca.key") {
			t.Errorf("%s has files of an etcd of its own:\n%s", n.Name(), files)
		}
		awaitAPI(t, n, "/etcd")
	}
	if err := settle(t.Context(), s.cp, planes+workers); err != nil {
		t.Fatal(err)
	}
	last := s.planes[len(s.planes)-1]
	run(t, last, ours, "reset", "--force")
	await(t, "the API without "+last.Name(), patience, func() error {
		_, err := s.cp.Kubectl(t.Context(), "get", "--raw", "/readyz")
		return err
	})
}
