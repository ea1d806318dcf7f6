package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"time"
)

const pemCertificate = "CERTIFICATE"

// Validity is the span of time, both ends included, in which a certificate
// holds. Certificates keep whole seconds.
type Validity struct {
	NotBefore, NotAfter time.Time
}

// early is how long before it is made a certificate begins, for clocks that run behind.
const early = 5 * time.Minute

// Lasting is the validity of a certificate made now that is to hold for d.
func Lasting(now time.Time, d time.Duration) Validity {
	now = now.UTC()
	return Validity{NotBefore: now.Add(-early), NotAfter: now.Add(d)}
}

// Spec is what a certificate or a request for one says of its owner.
type Spec struct {
	CommonName   string
	Organization []string
	SANs         SANs
	Usages       []x509.ExtKeyUsage // a request leaves them to the signer
	Validity     Validity
}

// CA is a certificate authority. Key is nil when it is kept elsewhere (an
// external CA); such a CA can verify but not issue.
type CA struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// CanIssue reports whether the private key is at hand.
func (c CA) CanIssue() bool { return c.Key != nil }

// Owns reports whether the key is that of the certificate.
func (c CA) Owns() bool { return c.Key != nil && Owns(c.Key, c.Certificate) }

// Owns reports whether the key is that of the certificate.
func Owns(key crypto.Signer, cert *x509.Certificate) bool {
	return equalKeys(cert.PublicKey, key.Public())
}

func equalKeys(a, b crypto.PublicKey) bool {
	public, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(b)
}

// NewCA returns a certificate authority signed by its own key. Its common name
// is its only SAN (a DNS name), whatever s says of SANs and usages.
func NewCA(random io.Reader, key crypto.Signer, s Spec) (CA, error) {
	if s.CommonName == "" {
		return CA{}, errors.New("a CA certificate needs a common name")
	}
	s.SANs, s.Usages = SANs{DNSNames: []string{s.CommonName}}, nil
	template, err := s.template(random)
	if err != nil {
		return CA{}, err
	}
	template.IsCA = true
	template.KeyUsage |= x509.KeyUsageCertSign
	cert, err := create(random, template, CA{Certificate: template, Key: key}, key.Public())
	if err != nil {
		return CA{}, fmt.Errorf("signing CA certificate %q: %w", s.CommonName, err)
	}
	return CA{Certificate: cert, Key: key}, nil
}

// Issue returns a leaf certificate for the owner of the public key. Its end is
// not clamped to the authority's own.
func (c CA) Issue(random io.Reader, s Spec, owner crypto.PublicKey) (*x509.Certificate, error) {
	switch {
	case s.CommonName == "":
		return nil, errors.New("a certificate needs a common name")
	case len(s.Usages) == 0:
		return nil, fmt.Errorf("certificate %q needs at least one extended key usage", s.CommonName)
	case c.Certificate == nil || !c.Certificate.IsCA:
		return nil, fmt.Errorf("signing certificate %q: the signer is not a CA certificate", s.CommonName)
	case !c.CanIssue():
		return nil, fmt.Errorf("signing certificate %q: the private key of CA %q is not available",
			s.CommonName, c.Certificate.Subject.CommonName)
	}
	template, err := s.template(random)
	if err != nil {
		return nil, err
	}
	cert, err := create(random, template, c, owner)
	if err != nil {
		return nil, fmt.Errorf("signing certificate %q: %w", s.CommonName, err)
	}
	return cert, nil
}

// SpecOf returns what must survive a renewal of cert: common name,
// organizations, DNS and IP SANs and extended key usages. All else in the old
// certificate is dropped.
func SpecOf(cert *x509.Certificate, v Validity) Spec {
	return Spec{
		CommonName:   cert.Subject.CommonName,
		Organization: cert.Subject.Organization,
		SANs:         newSANs(cert.DNSNames, cert.IPAddresses),
		Usages:       cert.ExtKeyUsage,
		Validity:     v,
	}
}

// EncodeCertificates returns the certificates as one PEM bundle.
func EncodeCertificates(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, encodePEM(pemCertificate, c.Raw)...)
	}
	return out
}

// ParseCertificates returns every certificate of a PEM bundle in order, at
// least one; blocks of other kinds are passed over.
func ParseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for block := range pemBlocks(data) {
		if block.Type != pemCertificate {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parsing certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificate in PEM form found")
	}
	return certs, nil
}

func (s Spec) template(random io.Reader) (*x509.Certificate, error) {
	if !s.Validity.NotAfter.After(s.Validity.NotBefore) {
		return nil, fmt.Errorf("certificate %q would end (%s) before it begins (%s)", s.CommonName,
			s.Validity.NotAfter.UTC().Format(time.RFC3339), s.Validity.NotBefore.UTC().Format(time.RFC3339))
	}
	serial, err := newSerial(random)
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               s.subject(),
		DNSNames:              s.SANs.DNSNames,
		IPAddresses:           s.SANs.IPs,
		NotBefore:             s.Validity.NotBefore.UTC(),
		NotAfter:              s.Validity.NotAfter.UTC(),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           s.Usages,
		BasicConstraintsValid: true,
	}, nil
}

func (s Spec) subject() pkix.Name {
	return pkix.Name{CommonName: s.CommonName, Organization: s.Organization}
}

func create(random io.Reader, template *x509.Certificate, by CA, owner crypto.PublicKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(random, template, by.Certificate, owner, by.Key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newSerial draws from 1 … 2^63-2: RFC 5280, 4.1.2.2 asks for a positive number.
func newSerial(random io.Reader) (*big.Int, error) {
	n, err := rand.Int(random, big.NewInt(math.MaxInt64-1))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	return n.Add(n, big.NewInt(1)), nil
}

// Request returns a PKCS#10 certificate request as PEM: subject and SANs, no
// usages, signed by key.
func (s Spec) Request(random io.Reader, key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(random, &x509.CertificateRequest{
		Subject:     s.subject(),
		DNSNames:    s.SANs.DNSNames,
		IPAddresses: s.SANs.IPs,
	}, key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate request %q: %w", s.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// ParseRequest reads a certificate request in PEM form, whose signature must be that of the key in it.
func ParseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("no certificate request in PEM form")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = request.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("reading a certificate request: %w", err)
	}
	return request, nil
}
