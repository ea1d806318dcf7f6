package pki

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"
)

func TestWithoutPrivateKeys(t *testing.T) {
	key, err := NewKey(rand.Reader, ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := NewCA(rand.Reader, key,
		Spec{CommonName: "ca", Validity: NewValidity(time.Now(), time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := EncodeCertificates(ca.Certificate)
	commented := append([]byte("# the cluster's CA\n"), cert...)
	for name, c := range map[string]struct{ data, want []byte }{
		"a certificate":   {cert, cert},
		"with a comment":  {commented, commented},
		"with its key":    {append(bytes.Clone(commented), text...), cert},
		"key first":       {append(bytes.Clone(text), cert...), cert},
		"with half a key": {append(bytes.Clone(cert), text[:len(text)/2]...), cert},
		"with a PKCS#8's": {append(bytes.Clone(cert),
			strings.ReplaceAll(string(text), "EC PRIVATE", "PRIVATE")...), cert},
		"with DSA's, too": {append(bytes.Clone(cert),
			strings.ReplaceAll(string(text), "EC PRIVATE", "DSA PRIVATE")...), cert},
		"two certificates": {append(bytes.Clone(cert), cert...),
			append(bytes.Clone(cert), cert...)},
	} {
		got, err := WithoutPrivateKeys(c.data)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %v, got\n%s", name, err, got)
		}
	}
	if _, err := WithoutPrivateKeys(text); err == nil {
		t.Error("a private key alone is accepted as a bundle")
	}
	k := KubeconfigSpec{Server: "https://192.0.2.1:6443", Cluster: "c", User: "u",
		CA: append(bytes.Clone(cert), text...)}.WithToken("t")
	info, err := k.ClusterInfo()
	if err != nil || ContainsPrivateKey(info.Clusters[""].CertificateAuthorityData) {
		t.Errorf("cluster-info would publish a private key, or %v", err)
	}
}
