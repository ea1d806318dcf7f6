package discovery_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/pki"
)

// A second CA in a discovery file must not verify the server if the only hash is that of the
// first.
func TestDiscoveryFileWithPin(t *testing.T) {
	c, mallory := newCluster(t), authority(t, "kubernetes")
	cert, key := c.admin(t)
	both := append(pem(mallory), pem(c.ca)...)
	closed := func(w http.ResponseWriter, _ *http.Request) {
		fail(w, 403, metav1.StatusReasonForbidden)
	}
	for name, s := range map[string]struct {
		file    func(pki.KubeconfigSpec) *pki.Kubeconfig
		flags   func(*config.JoinFlags)
		answers map[string]http.HandlerFunc
	}{
		"a token in the file": {file: func(a pki.KubeconfigSpec) *pki.Kubeconfig { return a.WithToken(token) }},
		"a certificate":       {file: func(a pki.KubeconfigSpec) *pki.Kubeconfig { return a.WithCertificate(cert, key) }},
		"a token beside the file": {file: anonymous,
			flags: func(f *config.JoinFlags) { f.TLSBootstrapToken = token }},
		"cluster-info not public":  {file: func(a pki.KubeconfigSpec) *pki.Kubeconfig { return a.WithToken(token) }, answers: map[string]http.HandlerFunc{infoPath: closed}},
		"an administrator's, same": {file: func(a pki.KubeconfigSpec) *pki.Kubeconfig { return a.WithCertificate(cert, key) }, answers: map[string]http.HandlerFunc{infoPath: closed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown := signed(t, leadingTo(t, c.URL, both), token)
			attacker := (&server{info: shown, tokens: c.tokens, users: c.users, objects: c.objects,
				answers: s.answers}).begin(t, mallory, nil)
			access := c.access()
			access.Server, access.CA = attacker.URL, both
			m, flags := newMachine(), fileFlags()
			m.has(t, discoveryFile, s.file(access))
			flags.CACertHashes = []string{pki.PinOf(c.ca.Certificate).String()}
			if s.flags != nil {
				s.flags(&flags)
			}
			m.refused(t, flags, "not signed by the cluster's CA, so a different server answers there")
			attacker.toldNothing(t)
		})
	}
}

// The CA certificates that are written are those in the cluster-info of a server that a pinned CA
// verifies.
func TestPinnedServerPublishesCABundle(t *testing.T) {
	c, other := newCluster(t), authority(t, "other")
	both := append(pem(c.ca), pem(other)...)
	for name, s := range map[string]struct {
		file, shown, want []byte // nil: cluster-info is not published
		pinned            bool
	}{
		"more in the file than is shown": {file: both, shown: pem(c.ca), want: pem(c.ca),
			pinned: true},
		"less in the file than is shown": {file: pem(c.ca), shown: both, want: both, pinned: true},
		"nothing shown":                  {file: both, want: pem(c.ca), pinned: true},
		"no pin":                         {file: both, shown: pem(c.ca), want: both},
	} {
		t.Run(name, func(t *testing.T) {
			access := c.access()
			access.CA = s.file
			c.answers = map[string]http.HandlerFunc{infoPath: func(w http.ResponseWriter, _ *http.Request) { fail(w, 404, metav1.StatusReasonNotFound) }}
			if s.shown != nil {
				c.answers, c.info = nil, signed(t, leadingTo(t, c.URL, s.shown), token)
			}
			m, flags := newMachine(), fileFlags()
			m.has(t, discoveryFile, access.WithToken(token))
			if s.pinned {
				flags.CACertHashes = []string{pki.PinOf(c.ca.Certificate).String()}
			}
			m.joined(t, flags)
			if got := string(m.Files["/etc/kubernetes/pki/ca.crt"].Data); got != string(s.want) {
				t.Errorf("ca.crt holds %d certificates, want %d", strings.Count(got, "BEGIN"),
					strings.Count(string(s.want), "BEGIN"))
			}
		})
	}
}

// A verified server whose cluster-info has none of the pinned CAs is not of the expected cluster.
func TestPinnedServerMustPublishPinnedCA(t *testing.T) {
	c, other := newCluster(t), authority(t, "other")
	c.info = signed(t, leadingTo(t, c.URL, pem(other)), token)
	m, flags := newMachine(), fileFlags()
	m.has(t, discoveryFile, c.access().WithToken(token))
	flags.CACertHashes = []string{pki.PinOf(c.ca.Certificate).String()}
	m.refused(t, flags, "is for a different cluster", pki.PinOf(other.Certificate).String())
	c.toldNothing(t)
}
