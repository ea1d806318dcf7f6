package cli

import (
	"slices"
	"strings"
	"testing"

	"kubeadm/internal/pki"
	"kubeadm/internal/world/memory"
)

// supplied gives the machine all that init makes, but not the key of the cluster's CA.
func (s *testMachine) supplied(t *testing.T) {
	t.Helper()
	s.world.Files["/init.yaml"] = memory.File{Data: quick, Mode: 0o644}
	for _, phase := range []string{"certs", "kubeconfig"} {
		if err := s.run(t.Context(), "init", "phase", phase, "all", "--config",
			"/init.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	delete(s.world.Files, "/etc/kubernetes/pki/ca.key")
}

// Each fault in what the keeper of a CA has supplied is named with its file, before anything
// is done.
func TestExternalCAFilesAreChecked(t *testing.T) {
	const directory = "/etc/kubernetes/"
	other := newForeignMachine(t)
	other.supplied(t)
	foreign := func(file string) string { return string(other.world.Files[directory+file].Data) }
	for name, c := range map[string]struct{ file, data, want string }{
		"a certificate of another CA": {"pki/apiserver.crt", foreign("pki/apiserver.crt"),
			"pki/apiserver.crt: certificate \"kube-apiserver\" does not verify against CA \"kubernetes\""},
		"another key": {"pki/apiserver-kubelet-client.key",
			foreign("pki/apiserver.key"),
			"pki/apiserver-kubelet-client.crt: its private key does not match"},
		"no key": {"pki/apiserver.key", "x",
			"pki/apiserver.crt: no private key in PEM form"},
		"no certificate": {"pki/apiserver.crt", "x",
			"pki/apiserver.crt: no certificate in PEM form"},
		"no authority": {"pki/ca.crt", foreign("pki/apiserver.crt"),
			"pki/ca.crt: it is not a certificate authority"},
		"a damaged authority": {"pki/ca.crt", "x", "pki/ca.crt: no certificate in PEM form"},
		"a damaged authority's key": {"pki/front-proxy-ca.key", "x",
			"pki/front-proxy-ca.key contains no usable private key"},
		"a kubeconfig of another CA": {"admin.conf", foreign("admin.conf"),
			"admin.conf: kubeconfig trusts CA \"kubernetes\""},
		"no kubeconfig": {"scheduler.conf", "{",
			"scheduler.conf: parsing a kubeconfig"},
		"kubeconfig without a user": {"kubelet.conf", "",
			"kubelet.conf: user \"system:node:cp1\" of the kubeconfig has a client key without its certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestMachine(t)
			s.supplied(t)
			data := []byte(c.data)
			if c.data == "" {
				data = s.anonymous(t, directory+c.file)
			}
			s.world.Files[directory+c.file] = memory.File{Data: data, Mode: 0o600}
			before := s.world.Snapshot()
			err := s.run(t.Context(), "init", "--config", "/init.yaml")
			if err == nil || !strings.Contains(err.Error(), directory+c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if s.world.Snapshot() != before {
				t.Error("something was changed")
			}
		})
	}
}

// anonymous is a kubeconfig of the machine without the credentials in it, as a request for them
// leaves it.
func (s *testMachine) anonymous(t *testing.T, path string) []byte {
	t.Helper()
	config, err := pki.ParseKubeconfig(s.world.Files[path].Data)
	if err != nil {
		t.Fatal(err)
	}
	user, err := config.CurrentUser()
	if err != nil {
		t.Fatal(err)
	}
	user.ClientCertificateData = nil
	text, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A CA below another one brings its superior along in its file, and kubeconfigs may trust
// either.
func TestKubeconfigMayTrustRootCA(t *testing.T) {
	root, s := newTestMachine(t), newTestMachine(t)
	root.supplied(t)
	s.supplied(t)
	const ca, admin = "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/admin.conf"
	superior := root.world.Files[ca].Data
	s.world.Files[ca] = memory.File{Data: slices.Concat(s.world.Files[ca].Data, superior),
		Mode: 0o644}
	config, err := pki.ParseKubeconfig(s.world.Files[admin].Data)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := config.CurrentCluster()
	if err != nil {
		t.Fatal(err)
	}
	cluster.CertificateAuthorityData = superior
	text, err := config.Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.world.Files[admin] = memory.File{Data: text, Mode: 0o600}
	if err := s.run(t.Context(), "init", "--config", "/init.yaml"); err != nil {
		t.Error(err)
	}
}
