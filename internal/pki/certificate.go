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
	"slices"
	"time"
)

const pemCertificate = "CERTIFICATE"

// Validity is the validity period of a certificate, both ends included. Certificates store
// whole seconds.
type Validity struct {
	NotBefore, NotAfter time.Time
}

// clockSkew is how far NotBefore lies in the past when a certificate is generated: other machines'
// clocks may be behind.
const clockSkew = 5 * time.Minute

// NewValidity returns the validity of a certificate generated now that expires after d.
func NewValidity(now time.Time, d time.Duration) Validity {
	now = now.UTC()
	return Validity{NotBefore: now.Add(-clockSkew), NotAfter: now.Add(d)}
}

// Spec describes a certificate, or a certificate signing request.
type Spec struct {
	CommonName   string
	Organization []string
	SANs         SANs
	Usages       []x509.ExtKeyUsage // not part of a request
	Validity     Validity           // not part of a request
}

// CA is a certificate authority. Key is nil for an external CA, which can verify but not
// issue certificates.
type CA struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// CanIssue reports whether the CA has its private key.
func (c CA) CanIssue() bool { return c.Key != nil }

// IsKeyOf reports whether the private key belongs to the public key, such as that of a certificate.
func IsKeyOf(key crypto.Signer, public crypto.PublicKey) bool {
	k, ok := public.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.Equal(key.Public())
}

// NewCA returns a self-signed certificate authority. Its only SAN is its common name, as a DNS
// name; SANs and Usages of s are ignored.
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
	cert, err := createCertificate(random, template, CA{Certificate: template, Key: key},
		key.Public())
	if err != nil {
		return CA{}, fmt.Errorf("signing CA certificate %q: %w", s.CommonName, err)
	}
	return CA{Certificate: cert, Key: key}, nil
}

// Issue returns a leaf certificate for a public key. It may expire after the CA does.
func (c CA) Issue(random io.Reader, s Spec, key crypto.PublicKey) (*x509.Certificate, error) {
	switch {
	case s.CommonName == "":
		return nil, errors.New("a certificate needs a common name")
	case len(s.Usages) == 0:
		return nil, fmt.Errorf("certificate %q needs at least one extended key usage", s.CommonName)
	case c.Certificate == nil || !c.Certificate.IsCA:
		return nil, fmt.Errorf("signing certificate %q: the signer is not a CA certificate",
			s.CommonName)
	case !c.CanIssue():
		return nil, fmt.Errorf("signing certificate %q: the private key of CA %q is not available",
			s.CommonName, c.Certificate.Subject.CommonName)
	}
	template, err := s.template(random)
	if err != nil {
		return nil, err
	}
	cert, err := createCertificate(random, template, c, key)
	if err != nil {
		return nil, fmt.Errorf("signing certificate %q: %w", s.CommonName, err)
	}
	return cert, nil
}

// EncodeCertificates returns the certificates as one PEM bundle.
func EncodeCertificates(certs ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certs {
		out = append(out, encodePEM(pemCertificate, c.Raw)...)
	}
	return out
}

// ParseCertificates returns the certificates of a PEM bundle in order, at
// least one. Blocks of other types are skipped.
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
		return nil, fmt.Errorf("certificate %q would expire (%s) before it becomes valid (%s)",
			s.CommonName,
			s.Validity.NotAfter.UTC().Format(time.RFC3339),
			s.Validity.NotBefore.UTC().Format(time.RFC3339))
	}
	// a random number from 1 to 2^63-2: RFC 5280, 4.1.2.2 demands a positive one
	serial, err := rand.Int(random, big.NewInt(math.MaxInt64-1))
	if err != nil {
		return nil, fmt.Errorf("generating a serial number: %w", err)
	}
	serial.Add(serial, big.NewInt(1))
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: s.CommonName, Organization: s.Organization},
		DNSNames:              s.SANs.DNSNames,
		IPAddresses:           s.SANs.IPs,
		NotBefore:             s.Validity.NotBefore.UTC(),
		NotAfter:              s.Validity.NotAfter.UTC(),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:           s.Usages,
		BasicConstraintsValid: true,
	}, nil
}

func createCertificate(random io.Reader, template *x509.Certificate, signer CA,
	key crypto.PublicKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(random, template, signer.Certificate, key, signer.Key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Request returns a PKCS#10 certificate signing request as PEM. It holds subject and SANs, but
// no usages, and is signed by key.
func (s Spec) Request(random io.Reader, key crypto.Signer) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(random, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: s.CommonName, Organization: s.Organization},
		DNSNames:    s.SANs.DNSNames,
		IPAddresses: s.SANs.IPs,
	}, key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate request %q: %w", s.CommonName, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// IsRequestedBy reports whether a request has the same subject and SANs.
func (s Spec) IsRequestedBy(r *x509.CertificateRequest) bool {
	return r.Subject.CommonName == s.CommonName &&
		slices.Equal(slices.Sorted(slices.Values(r.Subject.Organization)),
			slices.Sorted(slices.Values(s.Organization))) &&
		newSANs(r.DNSNames, r.IPAddresses).String() == s.SANs.String()
}

// ParseRequest parses a certificate signing request in PEM form and checks its signature.
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
