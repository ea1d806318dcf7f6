package worldtest_test

import (
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/worldtest"
)

func TestFakeObjects(t *testing.T) {
	w := fake.New()
	w.Elsewhere = true
	worldtest.Objects(t, w, change.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"})
}

func TestFakeMembers(t *testing.T) {
	w := fake.New()
	w.MemberList = []change.Member{{ID: 1, Name: "cp1", PeerURLs: []string{"https://192.0.2.10:2380"}}}
	worldtest.Members(t, w, change.Etcd{}, worldtest.Joining{PeerURL: "https://192.0.2.11:2380", Start: func() {}})
}
