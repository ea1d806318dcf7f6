package pki

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
)

// knownCA and knownPin were computed by openssl:
//
//	openssl x509 -pubkey -noout | openssl pkey -pubin -outform DER | sha256sum
const knownCA = `-----BEGIN CERTIFICATE-----
MIIBgTCCASegAwIBAgIUerRbYcPD3QKWlJcrsq1H4krDIG8wCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjExMjAwOTMyNTBaGA8yMTI2MTAy
NzA5MzI1MFowFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABH9TtiG0cWleKQgjrVtPQDXxND1LlegHotnhvzjM/iEWz99Qjbv/
hKg2qHhGUv0cpCPNfSNv2J1cxtwzE9LbE4KjUzBRMB0GA1UdDgQWBBSd3nvTm4MT
YqEkgyzbYyAMtkwSNjAfBgNVHSMEGDAWgBSd3nvTm4MTYqEkgyzbYyAMtkwSNjAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIQC1IKGXv9Lt8Xh4k3dl
MYoQrGQqE9R2omdxwqbAc+T4TQIgHJpV/fb6Areby+T8peOgQydwXNNSi10nc8ci
aVj/iz8=
-----END CERTIFICATE-----`

const knownPin = "sha256:a057da1107d3bcf7e86a8089f91b2ac87ad4ea3c9439f046d8c51b9cdf135ba2"

func mustParse(t *testing.T, data []byte) []*x509.Certificate {
	t.Helper()
	certs, err := ParseCertificates(data)
	wantError(t, err)
	return certs
}

func TestPinMatchesOpenSSL(t *testing.T) {
	if got := PinOf(mustParse(t, []byte(knownCA))[0]).String(); got != knownPin {
		t.Errorf("got %s, want %s", got, knownPin)
	}
}

func TestParsePinIgnoresCase(t *testing.T) {
	for _, text := range []string{knownPin, strings.ToUpper(knownPin),
		"Sha256:" + strings.ToUpper(knownPin[7:])} {
		pin, err := ParsePin(text)
		wantError(t, err)
		if pin.String() != knownPin {
			t.Errorf("%s became %s", text, pin)
		}
	}
}

func TestParsePinRejectsOtherText(t *testing.T) {
	digits := knownPin[7:]
	for _, text := range []string{
		"", digits, "sha1:" + digits, "sha256:" + digits[1:], "sha256:" + digits + "00",
		"sha256:" + digits[:62] + "zz", "sha256::" + digits, "sha256:" + digits + ":",
		" " + knownPin,
	} {
		_, err := ParsePin(text)
		wantError(t, err, text, "64 hex digits")
		if _, err := MatchPins(mustParse(t, []byte(knownCA)), []string{knownPin, text}); err == nil {
			t.Errorf("%q was accepted among others", text)
		}
	}
}

func TestMatchPins(t *testing.T) {
	a, b := newCA(t, "a", day).Certificate, newCA(t, "b", day).Certificate
	bundle := []*x509.Certificate{a, b}
	for _, c := range []struct{ pins, want []*x509.Certificate }{
		{[]*x509.Certificate{b}, []*x509.Certificate{b}},
		{[]*x509.Certificate{newCA(t, "c", day).Certificate, a}, []*x509.Certificate{a}},
		{[]*x509.Certificate{b, a}, bundle},
	} {
		var pins []string
		for _, p := range c.pins {
			pins = append(pins, PinOf(p).String())
		}
		got, err := MatchPins(bundle, pins)
		wantError(t, err)
		if !slices.EqualFunc(got, c.want, (*x509.Certificate).Equal) {
			t.Errorf("%d certificates match %d pins, not %d", len(got), len(pins), len(c.want))
		}
	}
	for _, pins := range [][]string{{Pin{}.String()}, nil} {
		_, err := MatchPins(bundle, pins)
		wantError(t, err, "none of the cluster's CA certificates", PinOf(a).String(), PinOf(b).String())
	}
}
