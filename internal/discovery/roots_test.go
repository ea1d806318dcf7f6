package discovery_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kubeadm/internal/pki"
)

// TestTheMachinesTrustStore runs itself again, since a process reads the trust store once: the second one has a store of its
// own that trusts a CA made for it.
func TestTheMachinesTrustStore(t *testing.T) {
	const variable = "SSL_CERT_FILE"
	if os.Getenv("TEST_TRUST_STORE") != "" {
		trusted := authority(t, "public")
		if err := os.WriteFile(os.Getenv(variable), pem(trusted), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run("file at an URL", func(t *testing.T) { testRemoteFile(t, trusted) })
		t.Run("no CA in the file", func(t *testing.T) { testNoCA(t, trusted) })
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "TEST_TRUST_STORE=1", variable+"="+filepath.Join(t.TempDir(), "roots.pem"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestTheMachinesTrustStore/") {
		t.Errorf("%v\n%s", err, out)
	}
}

func testRemoteFile(t *testing.T, trusted pki.CA) {
	c := newCluster(t)
	text, err := c.access().WithToken(token).Encode()
	if err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	t.Cleanup(plain.Close)
	var failures int
	web := &server{answers: map[string]http.HandlerFunc{
		"/file":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) },
		"/on":      func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/file", http.StatusFound) },
		"/away":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, plain.URL, http.StatusFound) },
		"/gone":    http.NotFound,
		"/nothing": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
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
		web.URL + "/gone":        {web.URL + "/gone", "404 Not Found"},
		web.URL + "/nothing":     {"204 No Content"},
		web.URL + "/away":        {"redirected from https to " + plain.URL, "nobody vouches"},
		selfSigned.URL + "/file": {selfSigned.URL + "/file", "failed to verify certificate", "update-ca-certificates"},
	} {
		flags := fileFlags()
		flags.DiscoveryFile = address
		newMachine().refused(t, flags, words...)
	}
	selfSigned.toldNothing(t)
}

// testNoCA has a cluster whose API server the trust store vouches for, and a file that leaves it at that.
func testNoCA(t *testing.T, trusted pki.CA) {
	c := cluster{&server{tokens: []string{token}, objects: stored(t)}, trusted}
	c.begin(t, trusted, nil)
	c.info = signed(t, leadingTo(t, c.URL, pem(trusted)), token)
	access := c.access()
	access.CA = nil
	m := newMachine()
	m.has(t, discoveryFile, access.WithToken(token))
	a := m.joined(t, fileFlags())
	boot, err := pki.ParseKubeconfig(a.node.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	if to, err := boot.CurrentCluster(); err != nil || string(to.CertificateAuthorityData) != string(pem(trusted)) {
		t.Errorf("the kubelet is led to %+v, %v", to, err)
	}
	c.info = nil
	m = newMachine()
	m.has(t, discoveryFile, access.WithToken(token))
	m.refused(t, fileFlags(), discoveryFile+" holds no CA", "certificate-authority-data")
	c.info = signed(t, leadingTo(t, c.URL, pem(trusted)), token)
	flags := fileFlags()
	flags.CACertHashes = []string{pki.PinOf(authority(t, "other").Certificate).String()}
	m.refused(t, flags, "leads to another cluster", pki.PinOf(trusted.Certificate).String())
}
