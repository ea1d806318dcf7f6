package discovery_test

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"

	"kubeadm/internal/config"
	"kubeadm/internal/manifest"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
)

const (
	tokenID, tokenSecret = "abcdef", "0123456789abcdef"
	token                = tokenID + "." + tokenSecret
	infoPath             = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
)

func authority(t *testing.T, name string) pki.CA {
	t.Helper()
	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewCA(rand.Reader, key, pki.Spec{CommonName: name, Validity: valid()})
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func valid() pki.Validity {
	return pki.Validity{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
}

func pem(ca pki.CA) []byte { return pki.EncodeCertificates(ca.Certificate) }

// pair returns a certificate and its key, both PEM.
func pair(t *testing.T, ca pki.CA, spec pki.Spec) (cert, key []byte) {
	t.Helper()
	private, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := ca.Issue(rand.Reader, spec, private.Public())
	if err != nil {
		t.Fatal(err)
	}
	if key, err = pki.EncodeKey(private); err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(signed), key
}

// server is an API server, honest or not. It records the credentials that it receives.
type server struct {
	*httptest.Server
	info    map[string]string           // of ConfigMap cluster-info; nil for none
	tokens  []string                    // it knows
	users   []string                    // it knows by their client certificates, with all rights
	closed  bool                        // cluster-info is for known users only
	answers map[string]http.HandlerFunc // at certain paths, in place of all else
	objects map[string]state.Object     // by path

	mu   sync.Mutex
	told []string // credentials, in whatever form
	seen []string // paths
}

// begin starts the server with a certificate of that CA for 127.0.0.1. It accepts client
// certificates of the CA clients.
func (s *server) begin(t *testing.T, ca pki.CA, clients *x509.Certificate) *server {
	t.Helper()
	cert, key := pair(t, ca,
		pki.Spec{CommonName: "kube-apiserver",
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			SANs:   pki.SANs{IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}, Validity: valid()})
	identity, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{identity},
		ClientAuth: tls.RequestClientCert}
	if clients != nil {
		s.TLS.ClientCAs = x509.NewCertPool()
		s.TLS.ClientCAs.AddCert(clients)
		s.TLS.ClientAuth = tls.VerifyClientCertIfGiven
	}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// address returns host and port.
func (s *server) address() string { return s.Listener.Addr().String() }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user := s.note(r)
	if answer, ok := s.answers[r.URL.Path]; ok {
		answer(w, r)
		return
	}
	switch o, ok := s.objects[r.URL.Path]; {
	case r.URL.Path == infoPath && (!s.closed || user):
		s.mu.Lock()
		info := s.info
		s.mu.Unlock()
		reply(w, 200, map[string]any{"kind": "ConfigMap", "apiVersion": "v1",
			"metadata": map[string]any{"name": "cluster-info"}, "data": info})
	case !user && r.Header.Get("Authorization") != "":
		fail(w, 401, metav1.StatusReasonUnauthorized)
	case !user:
		fail(w, 403, metav1.StatusReasonForbidden)
	case ok:
		reply(w, 200, o)
	default:
		fail(w, 404, metav1.StatusReasonNotFound)
	}
}

// note records the credentials in a request, and reports whether they are of a known user.
func (s *server) note(r *http.Request) (known bool) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r.URL.Path)
	for _, c := range r.TLS.PeerCertificates {
		s.told = append(s.told, "certificate of "+c.Subject.CommonName)
		for _, u := range s.users {
			known = known || c.Subject.CommonName == u
		}
	}
	for name, values := range r.Header {
		if text := strings.Join(values, ","); name == "Authorization" || name == "Cookie" ||
			strings.Contains(text, tokenSecret) {
			s.told = append(s.told, name+": "+text)
		}
	}
	if text := r.URL.String() + string(body); strings.Contains(text, tokenSecret) {
		s.told = append(s.told, text)
	}
	for _, t := range s.tokens {
		known = known || r.Header.Get("Authorization") == "Bearer "+t
	}
	return known
}

// toldNothing checks that the server has received no credentials.
func (s *server) toldNothing(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.told) > 0 {
		t.Errorf("the server was told %q", s.told)
	}
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	reply(w, code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status: metav1.StatusFailure,
		Reason: reason, Code: int32(code), Message: "the server says " + string(reason)})
}

// cluster is an honest API server that knows the token, and its CA.
type cluster struct {
	*server
	ca pki.CA
}

func newCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{&server{tokens: []string{token}, users: []string{"kubernetes-admin"},
		objects: stored(t)}, authority(t, "kubernetes")}
	c.begin(t, c.ca, c.ca.Certificate)
	c.info = signed(t, leadingTo(t, c.URL, pem(c.ca)), token)
	return c
}

// flags returns flags that join the cluster by token, with the endpoint of a server.
func (c cluster) flags(at *server) config.JoinFlags {
	f := config.NewJoinFlags()
	f.Endpoint, f.Token, f.CACertHashes = at.address(), token,
		[]string{pki.PinOf(c.ca.Certificate).String()}
	return f
}

// leadingTo returns the kubeconfig in a cluster-info.
func leadingTo(t *testing.T, url string, ca []byte) string {
	t.Helper()
	info, err := manifest.ClusterInfo(pki.KubeconfigSpec{Server: url, Cluster: "kubernetes",
		User: "unused", CA: ca}.WithToken(""))
	if err != nil {
		t.Fatal(err)
	}
	return info.Data[bootstrapapi.KubeConfigKey]
}

// signed returns a cluster-info with the token's signature.
func signed(t *testing.T, text, token string) map[string]string {
	t.Helper()
	id, secret, _ := strings.Cut(token, ".")
	signature, err := jws.ComputeDetachedSignature(text, id, secret)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{bootstrapapi.KubeConfigKey: text,
		bootstrapapi.JWSSignatureKeyPrefix + id: signature}
}

// stored returns the ConfigMaps that a cluster has for nodes that join.
func stored(t *testing.T) map[string]state.Object {
	t.Helper()
	tool, err := release.ParseTool(release.DefaultTool)
	if err != nil {
		t.Fatal(err)
	}
	flags := config.NewInitFlags()
	flags.KubernetesVersion = tool.String()
	n, _, err := config.Init(config.File{}, flags,
		config.Facts{Tool: tool, Hostname: "cp1", Random: rand.Reader,
			Addresses: []state.Address{{IP: "192.0.2.10", DefaultRoute: true}},
			Runtimes:  []string{"unix:///run/containerd/containerd.sock"}})
	if err != nil {
		t.Fatal(err)
	}
	kubelets, err := manifest.KubeletConfig(n)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]state.Object{}
	for _, o := range []state.Object{manifest.KubeadmConfig(n), kubelets} {
		all["/api/v1/namespaces/kube-system/configmaps/"+o.GetName()] = o
	}
	return all
}
