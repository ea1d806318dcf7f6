package pki

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
)

func TestContainsPublicKeyOf(t *testing.T) {
	key, err := NewKey(rand.Reader, ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewKey(rand.Reader, ECDSAP384)
	if err != nil {
		t.Fatal(err)
	}
	own, err := EncodePublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := EncodePublicKey(other.Public())
	if err != nil {
		t.Fatal(err)
	}
	private, err := EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := NewKey(rand.Reader, RSA2048)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := encodePEM("RSA PUBLIC KEY",
		x509.MarshalPKCS1PublicKey(rsaKey.Public().(*rsa.PublicKey)))
	if contains, err := ContainsPublicKeyOf(pkcs1, rsaKey); contains || err == nil {
		t.Error("PKCS#1 is accepted, which kube-apiserver does not read")
	}
	for name, c := range map[string]struct {
		data     []byte
		contains bool
		fault    string
	}{
		"alone":            {own, true, ""},
		"after another":    {slices.Concat(foreign, own), true, ""},
		"as a private key": {private, true, ""},
		"another":          {foreign, false, ""},
		"nothing":          {nil, false, "no public key in PEM form found"},
		"damaged": {[]byte(
			"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), false,
			`block "PUBLIC KEY"`},
		"a block of another kind": {encodePEM("CERTIFICATE REQUEST", []byte("x")), false,
			"no public key in PEM form found"},
		"a certificate that is none": {encodePEM(pemCertificate, []byte("x")), false,
			`block "CERTIFICATE"`},
	} {
		contains, err := ContainsPublicKeyOf(c.data, key)
		if contains != c.contains || (err == nil) != (c.fault == "") || err != nil &&
			!strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: got %t, %v; want %t, %q", name, contains, err, c.contains, c.fault)
		}
	}
}
