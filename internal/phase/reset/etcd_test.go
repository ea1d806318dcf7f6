package reset_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kubeadm/internal/change"
	"kubeadm/internal/phase/reset"
	"kubeadm/internal/state"
	"kubeadm/internal/world/memory"
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
// start etcd again. The next reset does not take the default directory for that of the member.
func TestManifestOfEtcdOutlivesData(t *testing.T) {
	data := change.Remove{Path: "/srv/etcd", Contents: true}
	certificate := change.Remove{Path: "/etc/kubernetes/pki/etcd/server.crt"}
	manifest := change.Remove{Path: "/etc/kubernetes/manifests/etcd.yaml"}
	for _, managed := range []bool{true, false} {
		s := newScene("cp1=https://192.0.2.1:2380", member(1))
		s.Services["kubelet"] = state.Service{Exists: managed, Active: managed}
		file := s.Files[manifest.Path]
		file.Data = bytes.ReplaceAll(file.Data, []byte("path: /var/lib/etcd}"), []byte("path: /srv/etcd}"))
		s.Files[manifest.Path] = file
		s.Files[certificate.Path] = memory.File{Mode: 0o644}
		s.Files[data.Path] = memory.File{Mode: fs.ModeDir | 0o700}
		s.Files[data.Path+"/member"] = memory.File{Mode: fs.ModeDir | 0o700}
		for range 2 {
			if err := reset.Etcd.Run(t.Context(), s.e); err != nil {
				t.Fatal(err)
			}
		}
		want := []change.Remove{data, certificate, manifest}
		if !managed {
			want = []change.Remove{certificate, manifest, data}
		}
		if diff := cmp.Diff(want, s.removals); diff != "" {
			t.Errorf("the init system runs the kubelet: %t; removed (-want +got):\n%s", managed, diff)
		}
		if _, there := s.Files["/var/lib/etcd/member"]; !there {
			t.Error("the default directory was emptied")
		}
	}
}
