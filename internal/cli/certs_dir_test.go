package cli

import (
	"strings"
	"testing"

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
