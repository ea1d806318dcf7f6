package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Pin is the SHA-256 digest of a certificate's DER SubjectPublicKeyInfo, the
// pin of RFC 7469, by which a joining node knows the cluster's CA.
type Pin [sha256.Size]byte

const pinAlgorithm = "sha256"

// PinOf returns the certificate's pin.
func PinOf(cert *x509.Certificate) Pin {
	return sha256.Sum256(cert.RawSubjectPublicKeyInfo)
}

// ParsePin reads "sha256:<64 hex digits>", in either case.
func ParsePin(text string) (Pin, error) {
	algorithm, digits, found := strings.Cut(text, ":")
	if !found || !strings.EqualFold(algorithm, pinAlgorithm) {
		return Pin{}, fmt.Errorf("CA certificate hash %q must have the form %s:<64 hex digits>", text, pinAlgorithm)
	}
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != sha256.Size {
		return Pin{}, fmt.Errorf("CA certificate hash %q: after %s: there must be 64 hex digits", text, pinAlgorithm)
	}
	return Pin(raw), nil
}

// ParsePins reads all of them or reports the first bad one.
func ParsePins(texts []string) ([]Pin, error) {
	var pins []Pin
	for _, text := range texts {
		p, err := ParsePin(text)
		if err != nil {
			return nil, err
		}
		pins = append(pins, p)
	}
	return pins, nil
}

// String returns the form that ParsePin reads, in lower case.
func (p Pin) String() string { return pinAlgorithm + ":" + hex.EncodeToString(p[:]) }

// MatchPins returns those certificates that have one of the pins; there must be at least one. No pins
// match nothing: whether to go without is the caller's decision.
func MatchPins(certs []*x509.Certificate, pins []Pin) ([]*x509.Certificate, error) {
	var matching []*x509.Certificate
	var have []string
	for _, c := range certs {
		if slices.Contains(pins, PinOf(c)) {
			matching = append(matching, c)
		}
		have = append(have, PinOf(c).String())
	}
	if len(matching) == 0 {
		return nil, fmt.Errorf("none of the cluster's CA certificates has a hash that was asked for; theirs: %s", strings.Join(have, ", "))
	}
	return matching, nil
}
