package pki_test

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"log"
	"time"

	"kubeadm/internal/pki"
)

// A CA is a key and a certificate that it signed itself. It issues certificates for other keys.
func ExampleNewCA() {
	now := time.Date(2026, time.November, 22, 0, 0, 0, 0, time.UTC)
	caKey, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		log.Fatal(err)
	}
	ca, err := pki.NewCA(rand.Reader, caKey, pki.Spec{
		CommonName: "kubernetes",
		Validity:   pki.NewValidity(now, 10*365*24*time.Hour),
	})
	if err != nil {
		log.Fatal(err)
	}

	key, err := pki.NewKey(rand.Reader, pki.ECDSAP256)
	if err != nil {
		log.Fatal(err)
	}
	sans, _ := pki.ParseSANs([]string{"cp1", "192.0.2.10"})
	cert, err := ca.Issue(rand.Reader, pki.Spec{
		CommonName: "kube-apiserver",
		SANs:       sans,
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		Validity:   pki.NewValidity(now, 365*24*time.Hour),
	}, key.Public())
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(cert.Subject, "issued by", cert.Issuer)
	fmt.Println(cert.DNSNames, cert.IPAddresses, "until", cert.NotAfter.Format(time.DateOnly))
	fmt.Println("verified:", pki.VerifyChain([]*x509.Certificate{cert}, ca.Certificate, now) == nil)
	// Output:
	// CN=kube-apiserver issued by CN=kubernetes
	// [cp1] [192.0.2.10] until 2027-11-22
	// verified: true
}
