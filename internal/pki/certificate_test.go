package pki

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// facts are the properties of a certificate that a reader can compare.
type facts struct {
	Subject             string
	Usages              []x509.ExtKeyUsage
	KeyUsage            x509.KeyUsage
	IsCA                bool
	PathLen             int
	DNSNames            []string
	IPs                 []string
	SubjectID, SignerID bool
	NotBefore, NotAfter time.Time
	Signature           string
	Extensions          []string // in their order; critical ones marked
}

func factsOf(cert *x509.Certificate) facts {
	f := facts{
		Subject: cert.Subject.String(), Usages: cert.ExtKeyUsage, KeyUsage: cert.KeyUsage,
		IsCA: cert.IsCA, PathLen: cert.MaxPathLen, DNSNames: cert.DNSNames,
		SubjectID: len(cert.SubjectKeyId) > 0, SignerID: len(cert.AuthorityKeyId) > 0,
		NotBefore: cert.NotBefore, NotAfter: cert.NotAfter,
		Signature: cert.SignatureAlgorithm.String(),
	}
	for _, ip := range cert.IPAddresses {
		f.IPs = append(f.IPs, ip.String())
	}
	for _, e := range cert.Extensions {
		f.Extensions = append(f.Extensions, extensionWord(e))
	}
	return f
}

// extensionWord names an extension of RFC 5280, section 4.2.1.
func extensionWord(e pkix.Extension) string {
	word := map[string]string{
		"2.5.29.14": "subjectKeyId", "2.5.29.15": "keyUsage", "2.5.29.17": "subjectAltName",
		"2.5.29.19": "basicConstraints", "2.5.29.35": "authorityKeyId", "2.5.29.37": "extKeyUsage",
	}[e.Id.String()]
	if e.Critical {
		word += "!"
	}
	return word
}

func TestNewCA(t *testing.T) {
	ca := newCA(t, "kubernetes", day)
	want := facts{
		Subject:  "CN=kubernetes",
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageCertSign,
		IsCA:     true, PathLen: -1, DNSNames: []string{"kubernetes"}, SubjectID: true,
		NotBefore: day.NotBefore, NotAfter: day.NotAfter, Signature: "ECDSA-SHA256",
		Extensions: strings.Fields("keyUsage! basicConstraints! subjectKeyId subjectAltName"),
	}
	if diff := cmp.Diff(want, factsOf(ca.Certificate)); diff != "" {
		t.Error(diff)
	}
}

func TestIssueLeaf(t *testing.T) {
	ca := newCA(t, "kubernetes", day)
	sans, _ := ParseSANs([]string{"b", "a", "10.0.0.2", "a", "10.0.0.1", "10.0.0.2", "*.x"})
	long := Validity{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1000 * time.Hour)}
	got := newLeaf(t, ca, Spec{CommonName: "me", Organization: []string{"ops"}, SANs: sans,
		Usages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		Validity: long})
	want := facts{
		Subject:  "CN=me,O=ops",
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		Usages:   []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		PathLen:  -1, DNSNames: []string{"*.x", "a", "b"}, IPs: []string{"10.0.0.2", "10.0.0.1"},
		SignerID:  true,
		NotBefore: long.NotBefore, NotAfter: long.NotAfter, Signature: "ECDSA-SHA256",
		Extensions: strings.Fields(
			"keyUsage! extKeyUsage basicConstraints! authorityKeyId subjectAltName"),
	}
	if diff := cmp.Diff(want, factsOf(got.cert)); diff != "" {
		t.Error(diff)
	}
	if !bytes.Equal(got.cert.AuthorityKeyId, ca.Certificate.SubjectKeyId) {
		t.Error("the authority key id is not the CA's subject key id")
	}
}

func TestSignatureAlgorithmIsThatOfTheSigner(t *testing.T) {
	for a, want := range map[Algorithm]x509.SignatureAlgorithm{
		RSA2048: x509.SHA256WithRSA, ECDSAP256: x509.ECDSAWithSHA256,
		ECDSAP384: x509.ECDSAWithSHA384,
	} {
		key, err := NewKey(rand.Reader, a)
		wantError(t, err)
		ca, err := NewCA(rand.Reader, key, Spec{CommonName: "ca", Validity: day})
		wantError(t, err)
		if got := newLeaf(t, ca, clientOf("x")).cert.SignatureAlgorithm; got != want {
			t.Errorf("%s signs with %s, want %s", a, got, want)
		}
	}
}

func TestSerialNumbersArePositive63BitIntegers(t *testing.T) {
	limit := new(big.Int).Lsh(big.NewInt(1), 63)
	for range 200 {
		template, err := Spec{Validity: day}.template(rand.Reader)
		wantError(t, err)
		if n := template.SerialNumber; n.Sign() <= 0 || n.Cmp(limit) >= 0 {
			t.Fatalf("serial %s", n)
		}
	}
	template, err := Spec{Validity: day}.template(zeros{})
	wantError(t, err)
	if n := template.SerialNumber; n.Int64() != 1 {
		t.Errorf("the smallest serial is %s", n)
	}
	_, err = NewCA(iotest.ErrReader(io.ErrUnexpectedEOF), newKey(t),
		Spec{CommonName: "ca", Validity: day})
	wantError(t, err, "serial")
}

func TestIssueRejectsIncompleteSpecs(t *testing.T) {
	ca := newCA(t, "ca", day)
	other := newCA(t, "other", day)
	client := newLeaf(t, ca, clientOf("client"))
	backwards := clientOf("x")
	backwards.Validity = Validity{NotBefore: now, NotAfter: now}
	for name, c := range map[string]struct {
		by   CA
		spec Spec
		errs []string
	}{
		"no name": {ca, Spec{Usages: clientOf("").Usages, Validity: day},
			[]string{"common name"}},
		"no usage":      {ca, Spec{CommonName: "x", Validity: day}, []string{"x", "usage"}},
		"ends too soon": {ca, backwards, []string{"x", "2026-03-04T05:06:07Z"}},
		"keyless CA": {CA{Certificate: ca.Certificate}, clientOf("x"),
			[]string{"x", `CA "ca"`}},
		"no CA": {CA{}, clientOf("x"), []string{"x"}},
		"signer is a leaf": {CA{Certificate: client.cert, Key: client.key}, clientOf("x"),
			[]string{"not a CA"}},
		"key of another": {CA{Certificate: ca.Certificate, Key: other.Key}, clientOf("x"),
			[]string{"x", "match"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.by.Issue(rand.Reader, c.spec, newKey(t).Public())
			wantError(t, err, c.errs...)
		})
	}
	_, err := NewCA(rand.Reader, newKey(t), Spec{Validity: day})
	wantError(t, err, "common name")
}

func TestRenewalKeepsSubjectSANsAndUsages(t *testing.T) {
	ca := newCA(t, "ca", day)
	sans, _ := ParseSANs([]string{"b", "a", "10.0.0.9", "10.0.0.1"})
	old := newLeaf(t, ca, Spec{CommonName: "cp1", Organization: []string{"x", "y"}, SANs: sans,
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Validity: day})
	later := Validity{NotBefore: now.Add(time.Hour), NotAfter: now.Add(48 * time.Hour)}
	renewed := newLeaf(t, ca, RenewalSpec(old.cert, later))
	want := factsOf(old.cert)
	want.NotBefore, want.NotAfter = later.NotBefore, later.NotAfter
	if diff := cmp.Diff(want, factsOf(renewed.cert)); diff != "" {
		t.Error(diff)
	}
}

func TestRequestHasSubjectAndSANs(t *testing.T) {
	key := newKey(t)
	sans, _ := ParseSANs([]string{"cp1", "10.0.0.1"})
	data, err := Spec{CommonName: "cp1", Organization: []string{"o"}, SANs: sans,
		Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}.Request(rand.Reader, key)
	wantError(t, err)
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		t.Fatalf("not one request in PEM form: %s", data)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	wantError(t, err)
	wantError(t, csr.CheckSignature())
	if csr.Subject.String() != "CN=cp1,O=o" || len(csr.Extensions) != 1 ||
		!cmp.Equal(csr.DNSNames, []string{"cp1"}) || csr.IPAddresses[0].String() != "10.0.0.1" {
		t.Errorf("request for %s, %v, %v with %d extensions", csr.Subject, csr.DNSNames,
			csr.IPAddresses, len(csr.Extensions))
	}
}

func TestParseCertificatesKeepsOrder(t *testing.T) {
	a, b := newCA(t, "a", day), newCA(t, "b", day)
	bundle := append(EncodeCertificates(a.Certificate, b.Certificate), keyPEM(t, a.Key)...)
	certs, err := ParseCertificates(bundle)
	wantError(t, err)
	if len(certs) != 2 || !certs[0].Equal(a.Certificate) || !certs[1].Equal(b.Certificate) {
		t.Errorf("got %d certificates", len(certs))
	}
	_, err = ParseCertificates(keyPEM(t, a.Key))
	wantError(t, err, "no certificate")
	_, err = ParseCertificates(append(EncodeCertificates(a.Certificate),
		encodePEM(pemCertificate, []byte("x"))...))
	wantError(t, err, "certificate 2")
}
