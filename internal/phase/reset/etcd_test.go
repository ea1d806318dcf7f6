package reset_test

import (
	"fmt"
	"strings"
	"testing"

	"kubeadm/internal/phase/reset"
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
