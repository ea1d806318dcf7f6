package worldtest_test

import (
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/worldtest"
)

func TestFakeObjects(t *testing.T) {
	w := fake.New()
	for _, c := range []change.Change{
		change.WriteFile{Path: "/etc/kubernetes/manifests/kube-apiserver.yaml", Mode: 0o600},
		change.SetService{Name: "kubelet", Active: true},
	} {
		if err := w.Do(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	worldtest.Objects(t, w, change.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"})
}

func TestFakeMembers(t *testing.T) {
	w := fake.New()
	w.MemberList = []change.Member{{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.10:2380"}}}
	worldtest.Members(t, w, change.Etcd{}, worldtest.Joining{PeerURL: "https://192.0.2.11:2380", Start: func() {}})
}
