package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/world"
	"kubeadm/internal/world/memory"
)

// While no API server answers, certificates are renewed in the directory that the manifests name. --cert-dir wins.
func TestRenewalFindsCertificatesDir(t *testing.T) {
	const dir = "/srv/pki"
	for name, c := range map[string]struct {
		edit func(s *testMachine)
		args []string
		dir  string // empty if that is another one
		says string
	}{
		"no cluster answers": {func(*testMachine) {}, nil, dir, "the certificates directory is " + dir},
		"the flag":           {func(*testMachine) {}, []string{"--cert-dir", "/srv/other"}, "", ""},
		"without a kubeconfig": {func(s *testMachine) { delete(s.world.Files, "/etc/kubernetes/admin.conf") }, nil, dir,
			"the certificates directory is " + dir},
		"no annotation": {func(s *testMachine) {
			const file = "/etc/kubernetes/manifests/kube-apiserver.yaml"
			text := strings.Replace(string(s.world.Files[file].Data), "kubeadm.kubernetes.io/kube-apiserver", "other", 1)
			s.world.Files[file] = memory.File{Data: []byte(text), Mode: 0o600}
		}, nil, dir, "it has no annotation"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.initClusterOf(t, append(quick[:len(quick):len(quick)], "certificatesDir: "+dir+"\n"...))
			clear(s.world.Objects) // the configuration cannot be read
			c.edit(s)
			file := dir + "/apiserver.crt"
			before := string(s.world.Files[file].Data)
			s.err.Reset()
			err := s.run(t.Context(), append([]string{"certs", "renew", "apiserver"}, c.args...)...)
			if isRenewed := string(s.world.Files[file].Data) != before; isRenewed != (c.dir != "") || err != nil {
				t.Errorf("it is renewed: %v, %v", isRenewed, err)
			}
			if !strings.Contains(s.err.String(), c.says) {
				t.Errorf("got %s", &s.err)
			}
		})
	}
}

// unreadFile is a world in which one file cannot be read.
type unreadFile struct {
	world.World
	file string
}

func (w unreadFile) ReadFile(ctx context.Context, name string) ([]byte, error) {
	if name == w.file {
		return nil, errors.New("input/output error")
	}
	return w.World.ReadFile(ctx, name)
}

// A manifest that cannot be read is not that of a machine without a control plane. Other files say nothing about the directory.
func TestRenewalWithUnreadManifest(t *testing.T) {
	const says = "the certificates directory may not be /etc/kubernetes/pki: "
	for file, isSaid := range map[string]bool{"/etc/kubernetes/manifests/kube-apiserver.yaml": true,
		"/var/lib/kubelet/instance-config.yaml": false, "/var/lib/kubelet/kubeadm-flags.env": false} {
		t.Run(file, func(t *testing.T) {
			s := newTestMachine(t)
			s.initCluster(t)
			clear(s.world.Objects) // the configuration cannot be read
			s.World = func() world.World { return unreadFile{s.world, file} }
			err := s.run(t.Context(), "certs", "renew", "apiserver")
			if strings.Contains(s.err.String(), says) != isSaid || err != nil {
				t.Errorf("%v\n%s", err, &s.err)
			}
		})
	}
}

// A temporary file that is removed is not a change of what the command is for.
func TestRemovedTemporaryFileIsNoChange(t *testing.T) {
	s := newHealthyNodeOf(t, quick)
	if err := s.world.PutFile("/etc/default/kubelet", memory.File{Data: []byte("KUBELET_EXTRA_ARGS=--hostname-override=cp1\n"),
		Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	renewed := s.world.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000000Z")
	if err := s.world.AddObjects(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: cp1, namespace: kube-node-lease},
  spec: {holderIdentity: cp1, renewTime: "` + renewed + `"}}`); err != nil {
		t.Fatal(err)
	}
	if err := s.run(t.Context(), "node-name", "keep"); err != nil { // which may restart the kubelet
		t.Fatal(err)
	}
	file := "/etc/kubernetes/" + change.TemporaryName("admin.conf", "ABCDEFGHIJKLMNOPQRSTUVWX27")
	if err := s.world.PutFile(file, memory.File{Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	err := s.run(t.Context(), "node-name", "keep")
	if said := s.out.String() + s.err.String(); err != nil || !strings.Contains(said, "there is nothing to do") || strings.Contains(said, "SUCCESS!") {
		t.Errorf("%v\n%s", err, said)
	}
	if _, isLeft := s.world.Files[file]; isLeft {
		t.Error("the file is left")
	}
}
