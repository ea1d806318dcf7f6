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
// pin of RFC 7469. A joining node verifies the cluster's CA with it.
type Pin [sha256.Size]byte

const pinAlgorithm = "sha256"

// PinOf returns the certificate's pin.
func PinOf(cert *x509.Certificate) Pin {
	return sha256.Sum256(cert.RawSubjectPublicKeyInfo)
}

// ParsePin parses "sha256:<64 hex digits>", in upper or lower case.
func ParsePin(text string) (Pin, error) {
	algorithm, digits, found := strings.Cut(text, ":")
	if !found || !strings.EqualFold(algorithm, pinAlgorithm) {
		return Pin{}, fmt.Errorf("CA certificate hash %q must have the form %s:<64 hex digits>",
			text, pinAlgorithm)
	}
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != sha256.Size {
		return Pin{}, fmt.Errorf("CA certificate hash %q: after %s: there must be 64 hex digits",
			text, pinAlgorithm)
	}
	return Pin(raw), nil
}

// String returns the form that ParsePin reads, in lower case.
func (p Pin) String() string { return pinAlgorithm + ":" + hex.EncodeToString(p[:]) }

// MatchPins returns the certificates that have one of the pins, at least one. Texts are in the form
// of ParsePin. An empty list of pins matches no certificate: the caller decides whether pins are
// optional.
func MatchPins(certs []*x509.Certificate, texts []string) ([]*x509.Certificate, error) {
	var pins []Pin
	for _, text := range texts {
		p, err := ParsePin(text)
		if err != nil {
			return nil, err
		}
		pins = append(pins, p)
	}
	var matching []*x509.Certificate
	var have []string
	for _, c := range certs {
		if slices.Contains(pins, PinOf(c)) {
			matching = append(matching, c)
		}
		have = append(have, PinOf(c).String())
	}
	if len(matching) == 0 {
		return nil, fmt.Errorf(
			"none of the cluster's CA certificates matches any of the given hashes; the cluster's hashes: %s",
			strings.Join(have, ", "))
	}
	return matching, nil
}
