package discovery_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd/api"

	"kubeadm/internal/pki"
)

// TestMachineTrustStore runs itself in a second process, as a process reads the trust store once.
// The second one has its own trust store with a CA for this test.
func TestMachineTrustStore(t *testing.T) {
	const variable = "SSL_CERT_FILE"
	if os.Getenv("TEST_TRUST_STORE") != "" {
		trusted := authority(t, "public")
		if err := os.WriteFile(os.Getenv(variable), pem(trusted), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run("file at an URL", func(t *testing.T) { testRemoteFile(t, trusted) })
		t.Run("no CA in the file", func(t *testing.T) { testNoCA(t, trusted) })
		t.Run("pin and no CA in the file", func(t *testing.T) { testPinWithoutCA(t, trusted) })
		t.Run("local paths in a file at an URL",
			func(t *testing.T) { testRemoteFileNamesNothingLocal(t, trusted) })
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "TEST_TRUST_STORE=1",
		variable+"="+filepath.Join(t.TempDir(), "roots.pem"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestMachineTrustStore/") {
		t.Errorf("%v\n%s", err, out)
	}
}

func testRemoteFile(t *testing.T, trusted pki.CA) {
	c := newCluster(t)
	text, err := c.access().WithToken(token).Encode()
	if err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	t.Cleanup(plain.Close)
	var failures int
	web := &server{answers: map[string]http.HandlerFunc{
		"/file": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) },
		"/on": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/file", http.StatusFound)
		},
		"/away": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, plain.URL, http.StatusFound)
		},
		"/gone": http.NotFound,
		"/nothing": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		},
		"/busy": func(w http.ResponseWriter, _ *http.Request) {
			if failures++; failures < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write(text)
		},
	}}
	web.begin(t, trusted, nil)
	for _, path := range []string{"/file?signature=secret", "/on", "/busy"} {
		flags := fileFlags()
		flags.DiscoveryFile = web.URL + path
		a := newMachine().joined(t, flags)
		if user := introduced(t, a); user.Token != token || strings.Contains(a.said, "signature") {
			t.Errorf("%s: the kubelet is given %+v, and it says\n%s", path, user, a.said)
		}
	}
	selfSigned := (&server{answers: web.answers}).begin(t, authority(t, "self"), nil)
	for address, words := range map[string][]string{
		web.URL + "/gone":    {web.URL + "/gone", "404 Not Found"},
		web.URL + "/nothing": {"204 No Content"},
		web.URL + "/away": {"redirected from https to " + plain.URL,
			"could not be verified"},
		selfSigned.URL + "/file": {selfSigned.URL + "/file", "failed to verify certificate",
			"update-ca-certificates"},
	} {
		flags := fileFlags()
		flags.DiscoveryFile = address
		newMachine().refused(t, flags, words...)
	}
	selfSigned.toldNothing(t)
}

// testNoCA joins a cluster whose API server this machine's trust store verifies, by a file without
// a CA.
func testNoCA(t *testing.T, trusted pki.CA) {
	c := cluster{&server{tokens: []string{token}, objects: stored(t)}, trusted}
	c.begin(t, trusted, nil)
	c.info = signed(t, leadingTo(t, c.URL, pem(trusted)), token)
	access := c.access()
	access.CA = nil
	m := newMachine()
	m.has(t, discoveryFile, access.WithToken(token))
	a := m.joined(t, fileFlags())
	boot, err := pki.ParseKubeconfig(a.node.BootstrapKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if to, err := boot.CurrentCluster(); err != nil ||
		string(to.CertificateAuthorityData) != string(pem(trusted)) {
		t.Errorf("the kubelet is led to %+v, %v", to, err)
	}
	c.info = nil
	m = newMachine()
	m.has(t, discoveryFile, access.WithToken(token))
	m.refused(t, fileFlags(), discoveryFile+" has no CA", "certificate-authority-data")
	c.info = signed(t, leadingTo(t, c.URL, pem(trusted)), token)
	flags := fileFlags()
	flags.CACertHashes = []string{pki.PinOf(authority(t, "other").Certificate).String()}
	m.refused(t, flags, "is for a different cluster", pki.PinOf(trusted.Certificate).String())
}

// testPinWithoutCA has a server that this machine's trust store verifies, but no pinned CA: it
// must get no credentials.
func testPinWithoutCA(t *testing.T, trusted pki.CA) {
	c := newCluster(t)
	impostor := (&server{info: c.info, tokens: c.tokens, objects: c.objects}).begin(t, trusted, nil)
	access := c.access()
	access.Server, access.CA = impostor.URL, nil
	m, flags := newMachine(), fileFlags()
	m.has(t, discoveryFile, access.WithToken(token))
	flags.CACertHashes = []string{pki.PinOf(c.ca.Certificate).String()}
	m.refused(t, flags, "not signed by the cluster's CA, so a different server answers there")
	impostor.toldNothing(t)
}

// testRemoteFileNamesNothingLocal has a web server whose files refer to files of this machine.
func testRemoteFileNamesNothingLocal(t *testing.T, trusted pki.CA) {
	c := newCluster(t)
	cert, key := c.admin(t)
	for field, edit := range map[string]func(to *api.Cluster, user *api.AuthInfo){
		`tokenFile "/srv/token"`: func(_ *api.Cluster, u *api.AuthInfo) {
			u.Token, u.TokenFile = "", "/srv/token"
		},
		`tokenFile "token"`:                   func(_ *api.Cluster, u *api.AuthInfo) { u.TokenFile = "token" },
		`client-certificate "/srv/admin.crt"`: func(_ *api.Cluster, u *api.AuthInfo) { u.ClientCertificate = "/srv/admin.crt" },
		`client-key "/srv/admin.key"`:         func(_ *api.Cluster, u *api.AuthInfo) { u.ClientKey = "/srv/admin.key" },
		`certificate-authority "/srv/ca.crt"`: func(to *api.Cluster, _ *api.AuthInfo) { to.CertificateAuthority = "/srv/ca.crt" },
		`exec "sh"`:                           func(_ *api.Cluster, u *api.AuthInfo) { u.Exec = program("touch /srv/owned") },
		`auth-provider "oidc"`:                func(_ *api.Cluster, u *api.AuthInfo) { u.AuthProvider = &api.AuthProviderConfig{Name: "oidc"} },
		`exec "x\n  - run: it\x1b[2J"`:        func(_ *api.Cluster, u *api.AuthInfo) { u.Exec = program(""); u.Exec.Command = "x\n  - run: it\x1b[2J" },
	} {
		t.Run(field, func(t *testing.T) {
			k := c.access().WithToken(token)
			edit(k.Clusters["c"], k.AuthInfos["u"])
			text, err := k.Encode()
			if err != nil {
				t.Fatal(err)
			}
			web := (&server{answers: map[string]http.HandlerFunc{"/file": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }}}).begin(t, trusted, nil)
			for _, besides := range []string{"", token} {
				m, flags := newMachine(), fileFlags()
				for name, data := range map[string][]byte{"token": []byte(token), "admin.crt": cert,
					"admin.key": key, "ca.crt": pem(c.ca)} {
					m.file("/srv/"+name, data)
				}
				flags.DiscoveryFile, flags.TLSBootstrapToken = web.URL+"/file", besides
				m.refused(t, flags, "using "+web.URL+"/file to find the cluster", "its "+field,
					"which is not allowed in a file fetched from a URL")
			}
		})
	}
	c.toldNothing(t)
}
