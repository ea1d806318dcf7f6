package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// VerifyChain verifies the first of certs against the root at that time, with the others as
// intermediates. Any extended key usage is accepted.
func VerifyChain(certs []*x509.Certificate, root *x509.Certificate, at time.Time) error {
	if len(certs) == 0 || root == nil || at.IsZero() {
		return errors.New("verifying a certificate needs the certificate, its CA and a time")
	}
	opts := x509.VerifyOptions{
		Roots:         x509.NewCertPool(),
		Intermediates: x509.NewCertPool(),
		CurrentTime:   at,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	opts.Roots.AddCert(root)
	for _, c := range certs[1:] {
		opts.Intermediates.AddCert(c)
	}
	if _, err := certs[0].Verify(opts); err != nil {
		return fmt.Errorf("certificate %q does not verify against CA %q: %w",
			certs[0].Subject.CommonName, root.Subject.CommonName, err)
	}
	return nil
}

// CheckPeriod returns an error if cert has expired or is not valid yet at that time. The text
// includes the validity period and the time. Some callers only warn.
func CheckPeriod(cert *x509.Certificate, at time.Time) error {
	text := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	state := ""
	switch {
	case at.Before(cert.NotBefore):
		state = "is not valid yet"
	case at.After(cert.NotAfter):
		state = "has expired"
	default:
		return nil
	}
	return fmt.Errorf("certificate %q %s: it is valid from %s to %s, and this machine's clock shows %s",
		cert.Subject.CommonName, state, text(cert.NotBefore), text(cert.NotAfter), text(at))
}

// LatestNotBefore returns the latest NotBefore of the certificates. Use it as the time of
// VerifyChain to verify signatures only: if the certificates were ever valid together, they were at
// that time.
func LatestNotBefore(certs ...*x509.Certificate) time.Time {
	var latest time.Time
	for _, c := range certs {
		if c.NotBefore.After(latest) {
			latest = c.NotBefore
		}
	}
	return latest
}

// StoredPair is the content of the two files of a certificate. Nil means that the file does not
// exist; an empty file is not nil.
type StoredPair struct {
	Certificate, Key []byte
}

// ParseCA parses a CA. With a missing or unreadable key the result is an external CA; a
// missing or unreadable certificate is an error. Validity period and basic constraints are not
// checked.
func (s StoredPair) ParseCA() (CA, error) {
	certs, err := s.certificates()
	if err != nil {
		return CA{}, err
	}
	ca := CA{Certificate: certs[0]}
	if key, err := ParseKey(s.Key); err == nil {
		ca.Key = key
	}
	return ca, nil
}

// VerifyLeaf parses a certificate with its intermediates and verifies it against ca.
// The key and the SANs are not checked.
func (s StoredPair) VerifyLeaf(ca *x509.Certificate, at time.Time) (*x509.Certificate, error) {
	certs, err := s.certificates()
	if err != nil {
		return nil, err
	}
	if err := VerifyChain(certs, ca, at); err != nil {
		return nil, err
	}
	return certs[0], nil
}

// VerifyPair is VerifyLeaf with a check that the private key exists and belongs to the certificate.
func (s StoredPair) VerifyPair(ca *x509.Certificate, at time.Time) (*x509.Certificate, error) {
	if s.Key == nil {
		return nil, errors.New("the private key file does not exist")
	}
	key, err := ParseKey(s.Key)
	if err != nil {
		return nil, err
	}
	leaf, err := s.VerifyLeaf(ca, at)
	if err == nil && !IsKeyOf(key, leaf.PublicKey) {
		err = errors.New("its private key does not match")
	}
	return leaf, err
}

func (s StoredPair) certificates() ([]*x509.Certificate, error) {
	if s.Certificate == nil {
		return nil, errors.New("the certificate file does not exist, only its key: restore the " +
			"certificate, or move the key out of the way")
	}
	return ParseCertificates(s.Certificate)
}
