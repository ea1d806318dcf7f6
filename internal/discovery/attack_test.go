package discovery_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/config"
	"kubeadm/internal/discovery"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

const signature = bootstrapapi.JWSSignatureKeyPrefix + tokenID

// An attacker at the given endpoint gets no credential and nothing is written, whatever
// cluster-info it sends.
func TestTokenDiscoveryRefusesAttackers(t *testing.T) {
	c, mallory := newCluster(t), authority(t, "kubernetes")
	forged := func(t *testing.T, by string) map[string]string {
		return signed(t, leadingTo(t, "https://192.0.2.66:6443", pem(mallory)), by)
	}
	for name, a := range map[string]struct {
		shows func(t *testing.T) map[string]string
		words []string
	}{
		"a forged cluster-info, signed by an attacker without the token": {
			func(t *testing.T) map[string]string { return forged(t, tokenID+".guessedsecret123") },
			[]string{"not signed with token " + tokenID}},
		"a forged cluster-info, by an attacker with the token": {
			func(t *testing.T) map[string]string { return forged(t, token) },
			[]string{"is not the expected one", pki.PinOf(mallory.Certificate).String()}},
		"the true CA beside the attacker's, by an attacker with the token": {
			func(t *testing.T) map[string]string {
				return signed(t, leadingTo(t, c.URL, append(pem(c.ca), pem(mallory)...)), token)
			}, []string{"certificate is not signed by the cluster's CA", "different server answers"}},
		"the true cluster-info, relayed": {
			func(*testing.T) map[string]string { return c.info },
			[]string{"certificate is not signed by the cluster's CA", "different server answers"}},
		"a kubeconfig that was altered": {
			func(*testing.T) map[string]string {
				return altered(c.info, bootstrapapi.KubeConfigKey,
					strings.Replace(c.info[bootstrapapi.KubeConfigKey], "127.0.0.1", "127.0.0.2",
						1))
			}, []string{"not signed with token " + tokenID}},
		"a signature that was altered": {
			func(*testing.T) map[string]string {
				return altered(c.info, signature,
					flipped(c.info[signature]))
			},
			[]string{"not signed with token " + tokenID}},
		"the signature of another token": {
			func(t *testing.T) map[string]string {
				other := signed(t, c.info[bootstrapapi.KubeConfigKey], "zzzzzz."+tokenSecret)
				return altered(c.info, signature,
					other[bootstrapapi.JWSSignatureKeyPrefix+"zzzzzz"])
			}, []string{"not signed with token " + tokenID}},
		"a signature that names no algorithm": {
			func(*testing.T) map[string]string {
				return altered(c.info, signature,
					"eyJhbGciOiJub25lIn0..")
			}, []string{"not signed with token " + tokenID}},
		"signatures of other tokens only": {
			func(t *testing.T) map[string]string {
				return signed(t, c.info[bootstrapapi.KubeConfigKey], "zzzzzz."+tokenSecret)
			},
			[]string{"does not recognize token " + tokenID, "expired", "deleted", `the "signing" usage`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attacker := (&server{info: a.shows(t)}).begin(t, mallory, nil)
			newMachine().refused(t, c.flags(attacker), a.words...)
			attacker.toldNothing(t)
		})
	}
}

func altered(info map[string]string, key, value string) map[string]string {
	info = maps.Clone(info)
	info[key] = value
	return info
}

// flipped returns the text with another last letter.
func flipped(text string) string {
	last := "A"
	if strings.HasSuffix(text, last) {
		last = "B"
	}
	return text[:len(text)-1] + last
}

// The server sends another cluster-info over the verified connection.
func TestClusterInfoMustNotChange(t *testing.T) {
	c := newCluster(t)
	first, other := c.info, signed(t, leadingTo(t, "https://192.0.2.66:6443", pem(c.ca)), token)
	var looks atomic.Int64
	c.answers = map[string]http.HandlerFunc{infoPath: func(w http.ResponseWriter, _ *http.Request) {
		data := first
		if looks.Add(1)%2 == 0 {
			data = other
		}
		reply(w, 200, map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "data": data})
	}}
	newMachine().refused(t, c.flags(c.server), "cluster-info read over the verified connection differs")
	c.toldNothing(t)
}

func TestServerInClusterInfoIsNotContacted(t *testing.T) {
	c := newCluster(t)
	away := (&server{info: c.info}).begin(t, authority(t, "mallory"), nil)
	plain := httptest.NewServer(away)
	t.Cleanup(plain.Close)
	t.Run("plain http", func(t *testing.T) {
		flags := c.flags(c.server)
		flags.Endpoint = strings.TrimPrefix(plain.URL, "http://")
		newMachine().refused(t, flags, "HTTP response to HTTPS client")
	})
	for name, to := range map[string]string{"redirected to plain http": plain.URL,
		"redirected to https": away.URL} {
		t.Run(name, func(t *testing.T) {
			leads := func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, to+r.URL.Path, http.StatusTemporaryRedirect)
			}
			attacker := (&server{answers: map[string]http.HandlerFunc{infoPath: leads}}).begin(t,
				authority(t, "mallory"), nil)
			newMachine().refused(t, c.flags(attacker), "redirect (307 Temporary Redirect)")
			attacker.toldNothing(t)
		})
	}
	away.toldNothing(t)
	if len(away.seen) > 0 {
		t.Errorf("it was asked for %q", away.seen)
	}
}

// The server in cluster-info must have a certificate of the cluster before it is sent the token.
func TestTokenIsSentToVerifiedServerOnly(t *testing.T) {
	c := newCluster(t)
	impostor := (&server{info: c.info, tokens: c.tokens, objects: c.objects}).begin(t,
		authority(t, "kubernetes"), nil)
	c.info = signed(t, leadingTo(t, impostor.URL, pem(c.ca)), token)
	for name, edit := range map[string]func(*config.JoinFlags){
		"with a pin": func(*config.JoinFlags) {},
		"without a pin": func(f *config.JoinFlags) {
			f.CACertHashes, f.UnsafeSkipCAVerification = nil, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			flags := c.flags(c.server)
			edit(&flags)
			newMachine().refused(t, flags, "failed to verify certificate", impostor.URL)
		})
	}
	impostor.toldNothing(t)
	c.toldNothing(t)
}

// The token is not sent to another server, even if the API server redirects to it.
func TestTokenIsNotSentAfterRedirect(t *testing.T) {
	c := newCluster(t)
	away := (&server{tokens: c.tokens, objects: c.objects}).begin(t, c.ca, nil)
	plain := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the server over plain http received %q", r.Header)
	}))
	t.Cleanup(plain.Close)
	for _, to := range []string{away.URL, plain.URL} {
		c.answers = map[string]http.HandlerFunc{"/api/v1/namespaces/kube-system/configmaps/kubeadm-config": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to+r.URL.Path, http.StatusFound)
		}}
		newMachine().refused(t, c.flags(c.server), "kubeadm-config at "+c.URL, "302")
	}
	away.toldNothing(t)
}

func TestTokenWithoutAuthenticationUsage(t *testing.T) {
	c := newCluster(t)
	c.tokens = nil
	words := []string{"does not accept the bootstrap token", "deleted, has expired", `"authentication"`,
		"kubeadm token create --print-join-command"}
	flags := c.flags(c.server)
	newMachine().refused(t, flags, words...)
	flags.ControlPlane, flags.CertificateKey = true, strings.Repeat("ab", 32)
	newMachine().refused(t, flags, append(words, "--print-join-command --upload-certs")...)
}

// The validation of the configuration demands a pin; discovery checks it again.
func TestDiscoveryWithoutPinFails(t *testing.T) {
	c := newCluster(t)
	e := engine.New(engine.Env{World: newMachine(), Emit: func(engine.Event) {},
		Local: node.Local{Discovery: node.Discovery{Endpoint: c.address(), Token: token,
			TLSBootstrapToken: token}, Timeouts: node.Timeouts{Discovery: limit}}})
	if _, err := discovery.Node(t.Context(), e); err == nil ||
		!strings.Contains(err.Error(), "no hash of the cluster's CA certificate") {
		t.Errorf("got %v, want an error about the missing hash", err)
	}
	c.toldNothing(t)
	if len(c.seen) > 0 {
		t.Errorf("it was asked for %q", c.seen)
	}
}

// An honest cluster is joined.
func TestTokenDiscovery(t *testing.T) {
	c := newCluster(t)
	a := newMachine().joined(t, c.flags(c.server))
	if user := introduced(t, a); user.Token != token {
		t.Errorf("the kubelet is given %+v", user)
	}
	if !slices.Contains(c.told, "Authorization: Bearer "+token) {
		t.Errorf("the cluster was told %q", c.told)
	}
}
