package pki

import (
	"crypto/rand"
	"crypto/x509"
	"testing"
	"time"
)

func TestVerifyChainAtTime(t *testing.T) {
	ca, other := newCA(t, "ca", day), newCA(t, "other", day)
	cert := newLeaf(t, ca, clientOf("client")).cert
	wantError(t, VerifyChain(mustParse(t, EncodeCertificates(cert)), ca.Certificate, now))
	wantError(t, VerifyChain(mustParse(t, EncodeCertificates(cert)), other.Certificate, now),
		"client", "other")
	wantError(t, VerifyChain(mustParse(t, EncodeCertificates(cert)), ca.Certificate,
		now.Add(48*time.Hour)), "client", "expired")
	wantError(t, VerifyChain(mustParse(t, EncodeCertificates(cert)), ca.Certificate, time.Time{}),
		"time")
	wantError(t, VerifyChain(nil, ca.Certificate, now), "certificate")
}

func TestVerifyChainWithIntermediates(t *testing.T) {
	root := newCA(t, "root", day)
	middle := newIntermediate(t, root)
	cert := newLeaf(t, middle, clientOf("client")).cert
	chain := EncodeCertificates(cert, middle.Certificate)
	if _, err := (StoredPair{Certificate: chain}).VerifyLeaf(root.Certificate, now); err != nil {
		t.Error(err)
	}
	_, err := StoredPair{Certificate: EncodeCertificates(cert)}.VerifyLeaf(root.Certificate, now)
	wantError(t, err, "client")
}

func newIntermediate(t *testing.T, root CA) CA {
	t.Helper()
	key := newKey(t)
	template, err := Spec{CommonName: "middle", Validity: day}.template(rand.Reader)
	wantError(t, err)
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
	cert, err := createCertificate(rand.Reader, template, root, key.Public())
	wantError(t, err)
	return CA{Certificate: cert, Key: key}
}

func TestCheckPeriod(t *testing.T) {
	cert := newCA(t, "ca", day).Certificate
	wantError(t, CheckPeriod(cert, now))
	wantError(t, CheckPeriod(cert, day.NotAfter))
	wantError(t, CheckPeriod(cert, day.NotAfter.Add(time.Second)), `"ca" has expired`, "2026-03-05")
	wantError(t, CheckPeriod(cert, day.NotBefore.Add(-time.Second)), `"ca"`, "is not valid yet",
		"from 2026-03-04T05:01:07Z to", "clock shows 2026-03-04T05:01:06Z")
}

func TestStoredCA(t *testing.T) {
	ca := newCA(t, "ca", day)
	crt, key := EncodeCertificates(ca.Certificate), keyPEM(t, ca.Key)
	bad := []byte("damaged")
	for name, c := range map[string]struct {
		stored   StoredPair
		canIssue bool
		errs     []string
	}{
		"whole":       {stored: StoredPair{crt, key}, canIssue: true},
		"external":    {stored: StoredPair{crt, nil}},
		"key damaged": {stored: StoredPair{crt, bad}},
		"nothing":     {errs: []string{"does not exist"}},
		"key alone": {stored: StoredPair{nil, key},
			errs: []string{"does not exist", "key"}},
		"certificate damaged": {stored: StoredPair{bad, key}, errs: []string{"no certificate"}},
		"empty file": {stored: StoredPair{[]byte{}, nil},
			errs: []string{"no certificate"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.stored.ParseCA()
			wantError(t, err, c.errs...)
			if err == nil && (got.CanIssue() != c.canIssue ||
				!got.Certificate.Equal(ca.Certificate)) {
				t.Errorf("CanIssue = %v", got.CanIssue())
			}
		})
	}
}

func TestStoredLeaf(t *testing.T) {
	ca, other := newCA(t, "ca", day), newCA(t, "other", day)
	good := newLeaf(t, ca, clientOf("client")).stored(t)
	foreign := newLeaf(t, other, clientOf("client")).stored(t)
	bad := []byte("damaged")
	for name, c := range map[string]struct {
		stored         StoredPair
		leaf, withPair bool // accepted without, and with, a look at the key
	}{
		"whole":               {good, true, true},
		"key missing":         {StoredPair{good.Certificate, nil}, true, false},
		"key damaged":         {StoredPair{good.Certificate, bad}, true, false},
		"certificate missing": {StoredPair{nil, good.Key}, false, false},
		"certificate damaged": {StoredPair{bad, good.Key}, false, false},
		"of another CA":       {foreign, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.stored.VerifyLeaf(ca.Certificate, now); (err == nil) != c.leaf {
				t.Errorf("Leaf: %v", err)
			}
			if _, err := c.stored.VerifyPair(ca.Certificate, now); (err == nil) != c.withPair {
				t.Errorf("Pair: %v", err)
			}
		})
	}
}

func TestStoredPairMustMatch(t *testing.T) {
	ca := newCA(t, "ca", day)
	one, two := newLeaf(t, ca, clientOf("client")).stored(t),
		newLeaf(t, ca, clientOf("client")).stored(t)
	_, err := StoredPair{one.Certificate, two.Key}.VerifyPair(ca.Certificate, now)
	wantError(t, err, "private key does not match")
}

func TestLatestNotBefore(t *testing.T) {
	late := Validity{NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)}
	ca := newCA(t, "ca", late)
	l := newLeaf(t, ca, clientOf("client"))
	if got := LatestNotBefore(l.cert, ca.Certificate); !got.Equal(late.NotBefore) {
		t.Errorf("got %s, want %s", got, late.NotBefore)
	}
	if err := VerifyChain([]*x509.Certificate{l.cert}, ca.Certificate,
		LatestNotBefore(l.cert, ca.Certificate)); err != nil {
		t.Error(err)
	}
}
