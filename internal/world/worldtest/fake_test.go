package worldtest_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
	"kubeadm/internal/world/dryrun"
	"kubeadm/internal/world/fake"
	"kubeadm/internal/world/worldtest"
)

func TestFakeObjects(t *testing.T) {
	w := fake.New()
	w.RemoteAPIServer = true
	worldtest.Objects(t, w, state.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"})
}

func TestFakeMembers(t *testing.T) {
	w := fake.New()
	w.MemberList = []state.Member{{ID: 1, Name: "cp1",
		PeerURLs: []string{"https://192.0.2.10:2380"}}}
	const peer = "https://192.0.2.11:2380"
	start := func() {
		for _, c := range []change.Change{
			change.WriteFile{Path: "/etc/kubernetes/manifests/etcd.yaml",
				Data: []byte("--name=cp2\n--initial-advertise-peer-urls=" + peer + "\n")},
			change.WriteFile{Path: "/etc/kubernetes/kubelet.conf"},
			change.WriteFile{Path: "/var/lib/kubelet/config.yaml"},
			change.SetService{Name: "kubelet", Active: true},
		} {
			if err := w.Do(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	worldtest.Members(t, w, state.Etcd{}, worldtest.JoiningMember{PeerURL: peer, Start: start})
}

func TestFakeMemberRemovals(t *testing.T) {
	w := fake.New()
	for id := range uint64(3) {
		host := fmt.Sprintf("https://192.0.2.%d", 10+id)
		w.MemberList = append(w.MemberList, state.Member{
			ID: id + 1, Name: "cp", PeerURLs: []string{host + ":2380"},
			ClientURLs: []string{host + ":2379"},
		})
	}
	via := state.Etcd{Endpoints: w.MemberList[0].ClientURLs}
	w.UnreachableMembers = []uint64{3}
	all := slices.Clone(w.MemberList)
	worldtest.MemberRemovals(t, w, via, "https://192.0.2.12:2380")
	w.MemberList, w.UnreachableMembers = all, []uint64{2, 3}
	worldtest.QuorumLoss(t, w, via)
}

func TestFakeEvictions(t *testing.T) {
	below := fake.New()
	below.RemoteAPIServer = true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := below.AddObjects(`{apiVersion: v1, kind: Pod,
  metadata: {namespace: default, name: web, uid: "1"}}`); err != nil {
		t.Fatal(err)
	}
	as := state.Identity{Kubeconfig: "/etc/kubernetes/admin.conf"}
	worldtest.Evictions(t, dryrun.New(below, "", dryrun.Paths{}), as, pod)
	worldtest.Evictions(t, below, as, pod)
}
