package pki

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd/api"
)

func compareGolden(t *testing.T, k *Kubeconfig, name string) {
	t.Helper()
	got, err := k.Encode()
	wantError(t, err)
	want, err := os.ReadFile(filepath.Join("testdata", name))
	wantError(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
	again, err := ParseKubeconfig(got)
	wantError(t, err)
	twice, err := again.Encode()
	wantError(t, err)
	if string(twice) != string(got) {
		t.Errorf("%s changes when it is read and written: %s", name, twice)
	}
}

func newAccess() KubeconfigSpec {
	return KubeconfigSpec{Server: "https://10.0.0.4:6443", Cluster: "kubernetes",
		User: "kubernetes-admin", CA: []byte("CA")}
}

func TestKubeconfigGoldenFiles(t *testing.T) {
	admin := newAccess().WithCertificate([]byte("CERT"), []byte("KEY"))
	compareGolden(t, admin, "admin.conf")
	compareGolden(t, newAccess().WithToken("abc"), "token.conf")
	awaiting := newAccess()
	awaiting.CA = nil
	compareGolden(t, awaiting.WithCertificate(nil, []byte("KEY")), "request.conf")
	info, err := admin.ClusterInfo()
	wantError(t, err)
	compareGolden(t, info, "cluster-info.conf")
	wantError(t, admin.UseRotatedCertificate("/var/lib/kubelet/pki/kubelet-client-current.pem"))
	compareGolden(t, admin, "rotating.conf")
}

func TestBrokenKubeconfigsAreRejected(t *testing.T) {
	for name, text := range map[string]string{
		"not YAML": ":\n\t-", "of another kind": "apiVersion: v1\nkind: Pod\n",
		"of another version": "apiVersion: v9\nkind: Config\n",
	} {
		if _, err := ParseKubeconfig([]byte(text)); err == nil {
			t.Errorf("a text that is %s was read", name)
		}
	}
	for name, c := range map[string]struct {
		config Kubeconfig
		errs   []string
	}{
		"no context":      {Kubeconfig{}, []string{"no current context"}},
		"missing context": {Kubeconfig{CurrentContext: "c"}, []string{`"c"`}},
		"missing parts": {Kubeconfig{CurrentContext: "c",
			Contexts: map[string]*api.Context{"c": {Cluster: "x", AuthInfo: "x"}}},
			[]string{`"x"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.config.CurrentCluster()
			wantError(t, err, c.errs...)
			_, err = c.config.CurrentUser()
			wantError(t, err, c.errs...)
			_, err = c.config.ClusterInfo()
			wantError(t, err, c.errs...)
			_, err = c.config.Endpoint()
			wantError(t, err, c.errs...)
			_, err = c.config.EmbeddedCAs()
			wantError(t, err, c.errs...)
			wantError(t, c.config.UseRotatedCertificate("x"), c.errs...)
			wantError(t, c.config.Renew(nil, nil, nil), c.errs...)
			if c.config.HasCredentials() {
				t.Error("the kubeconfig has credentials")
			}
		})
	}
}

func TestCheckReuse(t *testing.T) {
	ca, other := newCA(t, "ca", day).Certificate, newCA(t, "other", day).Certificate
	expected := mustParse(t, EncodeCertificates(other, ca))
	const server = "https://10.0.0.4:6443"
	files := func(path string) ([]byte, error) {
		if path == "/ca.crt" {
			return EncodeCertificates(ca), nil
		}
		return nil, errors.New("no file " + path)
	}
	for name, c := range map[string]struct {
		data     []byte
		path     string
		server   string
		warnings int
		errs     []string
	}{
		"same": {data: EncodeCertificates(ca), server: server},
		"white space around": {data: append([]byte("\n \n"),
			append(EncodeCertificates(ca), "\n\n"...)...), server: server},
		"first of a bundle": {data: EncodeCertificates(ca, newCA(t, "x", day).Certificate),
			server: server},
		"in a file":    {path: "/ca.crt", server: server},
		"missing file": {path: "/gone", server: server, errs: []string{"/gone"}},
		"another server": {data: EncodeCertificates(ca), server: "https://lb:6443",
			warnings: 1},
		"another CA": {data: EncodeCertificates(newCA(t, "alien", day).Certificate),
			server: server, errs: []string{"alien"}},
		"second of a bundle": {data: EncodeCertificates(newCA(t, "alien", day).Certificate, ca),
			server: server, errs: []string{"alien"}},
		"no CA": {server: server, errs: []string{"no certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccess()
			a.CA, a.Server = c.data, c.server
			k := a.WithToken("x")
			k.Clusters["kubernetes"].CertificateAuthority = c.path
			warnings, err := k.CheckReuse(expected, server, files)
			wantError(t, err, c.errs...)
			if len(warnings) != c.warnings {
				t.Errorf("warnings %q", warnings)
			}
			if k.Clusters["kubernetes"].CertificateAuthority != c.path {
				t.Error("looking at the file changed it")
			}
		})
	}
}

func TestRenewReplacesCredentialsOnly(t *testing.T) {
	ca := newCA(t, "ca", day)
	old := newLeaf(t, ca, clientOf("kubernetes-admin"))
	a := newAccess()
	a.CA = EncodeCertificates(ca.Certificate)
	k := a.WithCertificate(EncodeCertificates(old.cert), keyPEM(t, old.key))
	k.Contexts["other"] = &api.Context{Cluster: "elsewhere"}
	cert, err := k.ClientCertificate()
	wantError(t, err)
	if !cert.Equal(old.cert) {
		t.Error("another certificate came back")
	}
	wantError(t, k.Renew([]byte("ca2"), []byte("cert2"), []byte("key2")))
	a.CA = []byte("ca2")
	want := a.WithCertificate([]byte("cert2"), []byte("key2"))
	want.Contexts["other"] = &api.Context{Cluster: "elsewhere"}
	if diff := cmp.Diff(want, k); diff != "" {
		t.Error(diff)
	}
}

func TestRenewNeedsEmbeddedCredentials(t *testing.T) {
	wantError(t, newAccess().WithToken("x").Renew(nil, nil, nil), "client certificate")
	wantError(t, newAccess().WithCertificate([]byte("x"), nil).Renew(nil, nil, nil),
		"client-certificate-data")
	a := newAccess()
	a.CA = nil
	wantError(t, a.WithCertificate([]byte("x"), nil).Renew(nil, nil, nil), "CA certificate")
}

func TestEmbedReadsFiles(t *testing.T) {
	k := newAccess().WithCertificate(nil, []byte("KEY"))
	cluster, user := k.Clusters["kubernetes"], k.AuthInfos["kubernetes-admin"]
	cluster.CertificateAuthorityData, cluster.CertificateAuthority = nil, "/ca"
	user.ClientCertificate, user.ClientKey, user.TokenFile = "/cert", "/unread", "/token"
	read := map[string]string{"/ca": "CA", "/cert": "CERT", "/token": "abc\n"}
	from := func(path string) ([]byte, error) {
		if text, ok := read[path]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("no file " + path)
	}
	wantError(t, k.EmbedFiles(from))
	want := newAccess().WithCertificate([]byte("CERT"), []byte("KEY"))
	want.AuthInfos["kubernetes-admin"].Token = "abc"
	if diff := cmp.Diff(want, k); diff != "" {
		t.Error(diff)
	}
	user.TokenFile, user.Token = "/token", "stale"
	wantError(t, k.EmbedFiles(from))
	if user.Token != "abc" || user.TokenFile != "" {
		t.Errorf("the token is %q, and still to be read from %q", user.Token, user.TokenFile)
	}
	user.ClientKeyData, user.ClientKey = nil, "/gone"
	wantError(t, k.EmbedFiles(from), "/gone")
}

func TestRelativePathsAreResolved(t *testing.T) {
	for name, want := range map[string]string{
		"client.pem": "/etc/kubernetes/client.pem", "/var/client.pem": "/var/client.pem", "": "",
		`C:\var\client.pem`: `C:\var\client.pem`, "C:/var/client.pem": "C:/var/client.pem",
		`\\server\client.pem`: `\\server\client.pem`,
	} {
		k := &Kubeconfig{}
		k.AuthInfos = map[string]*api.AuthInfo{"u": {ClientCertificate: name}}
		k.ResolvePaths("/etc/kubernetes")
		if got := k.AuthInfos["u"].ClientCertificate; got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestHasCredentials(t *testing.T) {
	for name, user := range map[string]api.AuthInfo{
		"certificate": {ClientCertificate: "c", ClientKeyData: []byte("k")},
		"token":       {Token: "t"}, "token file": {TokenFile: "t"},
		"password": {Username: "u", Password: "p"},
		"program":  {Exec: &api.ExecConfig{}},
		"provider": {AuthProvider: &api.AuthProviderConfig{}},
	} {
		if !newAccess().withUser(&user).HasCredentials() {
			t.Errorf("%s does not count", name)
		}
	}
	for name, user := range map[string]api.AuthInfo{
		"anonymous": {}, "certificate without key": {ClientCertificate: "c"},
		"user without password": {Username: "u"},
	} {
		if newAccess().withUser(&user).HasCredentials() {
			t.Errorf("%s counts", name)
		}
	}
}

// The kubelet writes its kubeconfig before its client certificate exists. Callers distinguish that
// from a damaged file.
func TestEmbedMissingFileIsErrNotExist(t *testing.T) {
	k := newAccess().WithCertificate(nil, nil)
	k.AuthInfos["kubernetes-admin"].ClientCertificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"
	err := k.EmbedFiles(func(string) ([]byte, error) { return nil, fs.ErrNotExist })
	if !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(),
			"/var/lib/kubelet/pki/kubelet-client-current.pem, which does not exist") {
		t.Errorf("got %v", err)
	}
}
