package reset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/phase/reset"
	"kubeadm/internal/state"
)

// The user may have changed a manifest.
func TestSystemDirectoryAsEtcdDataIsNotEmptied(t *testing.T) {
	for _, dir := range []string{"/var/lib/", "var/lib/etcd", ".", "../var/lib/etcd"} {
		s := newScene("cp1=https://192.0.2.1:2380", member(1))
		file := s.Files["/etc/kubernetes/manifests/etcd.yaml"]
		file.Data = []byte(strings.ReplaceAll(string(file.Data), "path: /var/lib/etcd}",
			"path: "+dir+"}"))
		s.Files["/etc/kubernetes/manifests/etcd.yaml"] = file
		if err := reset.Etcd.Run(t.Context(), s.e); err != nil {
			t.Fatal(err)
		}
		if _, there := s.Files["/var/lib/etcd/member"]; !there {
			t.Errorf("%s: it was", dir)
		}
		if !s.said(fmt.Sprintf("the data directory %q in the etcd manifest is not dedicated to etcd", dir)) {
			t.Errorf("the user does not read why: %q", s.lines)
		}
	}
}

// Until its data are gone the manifest says where they are, unless a kubelet that is not stopped would
// start etcd again.
func TestManifestOfEtcdOutlivesData(t *testing.T) {
	data := change.Remove{Path: "/var/lib/etcd", Contents: true}
	manifest := change.Remove{Path: "/etc/kubernetes/manifests/etcd.yaml"}
	for _, managed := range []bool{true, false} {
		s := newScene("cp1=https://192.0.2.1:2380", member(1))
		s.Services["kubelet"] = state.Service{Exists: managed, Active: managed}
		s.reset(t)
		want := []change.Remove{data, manifest}
		if !managed {
			slices.Reverse(want)
		}
		if got := s.removals; len(got) < 2 || !slices.Equal(got[len(got)-2:], want) {
			t.Errorf("the init system runs the kubelet: %t; removed %v", managed, got)
		}
	}
}
