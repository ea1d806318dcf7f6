package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// VerifyChain reports whether the first of certs leads through the others to
// the root at that time. Any extended key usage is accepted.
func VerifyChain(certs []*x509.Certificate, root *x509.Certificate, at time.Time) error {
	if len(certs) == 0 || root == nil || at.IsZero() {
		return errors.New("verifying a certificate takes the certificate, its CA and a time")
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

// CheckPeriod returns an error, which callers may treat as a warning, when cert
// is not yet or no longer valid at that time. It tells both ends and the time.
func CheckPeriod(cert *x509.Certificate, at time.Time) error {
	text := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	fault := ""
	switch {
	case at.Before(cert.NotBefore):
		fault = "is not valid yet"
	case at.After(cert.NotAfter):
		fault = "has expired"
	default:
		return nil
	}
	return fmt.Errorf("certificate %q %s: it is valid from %s to %s, and this machine's clock shows %s",
		cert.Subject.CommonName, fault, text(cert.NotBefore), text(cert.NotAfter), text(at))
}

// Begun is when the last of the certificates began: if they ever held together, they did then.
func Begun(certs ...*x509.Certificate) time.Time {
	var begun time.Time
	for _, c := range certs {
		if c.NotBefore.After(begun) {
			begun = c.NotBefore
		}
	}
	return begun
}

// Stored is what the two files of a certificate hold. Nil stands for a file
// that does not exist, which is not the same as an empty one.
type Stored struct {
	Certificate, Key []byte
}

// CA reads an authority. A key that is absent or unreadable leaves an external
// CA; a certificate that is absent or unreadable is an error. Neither the
// period nor the CA flag is looked at.
func (s Stored) CA() (CA, error) {
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

// Leaf reads a certificate, with its intermediates, and verifies it against ca.
// The key file and the SANs are not looked at.
func (s Stored) Leaf(ca *x509.Certificate, at time.Time) (*x509.Certificate, error) {
	certs, err := s.certificates()
	if err != nil {
		return nil, err
	}
	if err := VerifyChain(certs, ca, at); err != nil {
		return nil, err
	}
	return certs[0], nil
}

// Pair is Leaf where the private key must be there as well, and be that of the certificate.
func (s Stored) Pair(ca *x509.Certificate, at time.Time) (*x509.Certificate, error) {
	if s.Key == nil {
		return nil, errors.New("the private key file does not exist")
	}
	key, err := ParseKey(s.Key)
	if err != nil {
		return nil, err
	}
	leaf, err := s.Leaf(ca, at)
	if err == nil && !Owns(key, leaf) {
		err = errors.New("the private key beside it is that of another certificate")
	}
	return leaf, err
}

func (s Stored) certificates() ([]*x509.Certificate, error) {
	if s.Certificate == nil {
		return nil, errors.New("the certificate file does not exist, only its key: " +
			"put the certificate back or move the key away")
	}
	return ParseCertificates(s.Certificate)
}
