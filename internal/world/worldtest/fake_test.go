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
	const peer = "https://192.0.2.11:2380"
	start := func() {
		for _, c := range []change.Change{
			change.WriteFile{Path: "/etc/kubernetes/manifests/etcd.yaml", Data: []byte("--name=cp2\n--initial-advertise-peer-urls=" + peer + "\n")},
			change.WriteFile{Path: "/etc/kubernetes/kubelet.conf"},
			change.WriteFile{Path: "/var/lib/kubelet/config.yaml"},
			change.SetService{Name: "kubelet", Active: true},
		} {
			if err := w.Do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	worldtest.Members(t, w, change.Etcd{}, worldtest.Joining{PeerURL: peer, Start: start})
}
