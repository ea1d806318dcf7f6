package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRenewables(t *testing.T) {
	var names []string
	for _, r := range Renewables() {
		names = append(names, r.Name)
		if (r.Base == "") == (r.File == "") || r.Purpose == "" ||
			r.LocalEtcdOnly() != (r.Issuer == EtcdCA) {
			t.Errorf("%+v is neither a pair of files nor a kubeconfig", r)
		}
	}
	want := []string{"admin.conf", "apiserver", "apiserver-etcd-client", "apiserver-kubelet-client",
		"controller-manager.conf",
		"etcd-healthcheck-client", "etcd-peer", "etcd-server", "front-proxy-client",
		"scheduler.conf", "super-admin.conf"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}

func TestRenewableReturnsFirstCertificate(t *testing.T) {
	ca := newCA(t, "ca", day)
	l := newLeaf(t, ca, clientOf("client"))
	chain := EncodeCertificates(l.cert, ca.Certificate)
	config, err := KubeconfigSpec{Server: "https://x", Cluster: "c", User: "u",
		CA: EncodeCertificates(ca.Certificate)}.
		WithCertificate(chain, keyPEM(t, l.key)).Encode()
	wantError(t, err)
	for file, r := range map[string]Renewable{string(chain): {Base: "a"},
		string(config): {File: "a.conf"}} {
		got, err := r.Certificate([]byte(file))
		wantError(t, err)
		if !got.Equal(l.cert) {
			t.Errorf("got that of %s", got.Subject)
		}
		_, err = r.Certificate([]byte("damaged"))
		wantError(t, err, "")
	}
}

func TestAlgorithmOf(t *testing.T) {
	for _, want := range algorithms {
		key, err := NewKey(rand.Reader, want)
		wantError(t, err)
		if got, known := AlgorithmOf(key.Public()); got != want || !known {
			t.Errorf("a %s key has algorithm %q", want, got)
		}
	}
	other, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	wantError(t, err)
	if got, known := AlgorithmOf(other.Public()); known {
		t.Errorf("an unsupported key has algorithm %q", got)
	}
}
