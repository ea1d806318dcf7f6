package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// The time of all tests, and the validity of their certificates.
var (
	now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	day = Validity{NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(24 * time.Hour)}
)

// wantError fails unless err mentions every part; no parts means no error.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if len(parts) == 0 {
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return
	}
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := NewKey(rand.Reader, ECDSAP256)
	wantError(t, err)
	return key
}

func newCA(t *testing.T, name string, v Validity) CA {
	t.Helper()
	ca, err := NewCA(rand.Reader, newKey(t), Spec{CommonName: name, Validity: v})
	wantError(t, err)
	return ca
}

// leaf is a certificate with its key.
type leaf struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newLeaf(t *testing.T, ca CA, s Spec) leaf {
	t.Helper()
	key := newKey(t)
	cert, err := ca.Issue(rand.Reader, s, key.Public())
	wantError(t, err)
	return leaf{cert, key}
}

func (l leaf) stored(t *testing.T) StoredPair {
	t.Helper()
	return StoredPair{Certificate: EncodeCertificates(l.cert), Key: keyPEM(t, l.key)}
}

func keyPEM(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	data, err := EncodeKey(key)
	wantError(t, err)
	return data
}

func clientOf(name string) Spec { return ClientSpec(name, nil, day) }

func testSite() NodeNames {
	return NodeNames{
		NodeName:         "cp1",
		AdvertiseAddress: "10.0.0.4",
		ServiceSubnet:    "10.96.0.0/12,fd00:96::/112",
		ControlPlaneHost: "api.example.com",
		DNSDomain:        "cluster.local",
	}
}
