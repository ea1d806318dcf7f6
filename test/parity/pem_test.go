package parity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pem adds the facts of certificates, keys and requests, one block after another.
func (r factCollector) pem(at, text string) {
	rest := []byte(text)
	for i := 0; ; i++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return
		}
		at := at + "/pem" + strconv.Itoa(i)
		r.add(at, block.Type)
		r.block(at, block)
	}
}

func (r factCollector) block(at string, b *pem.Block) {
	switch b.Type {
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			r.add(at, err.Error())
			return
		}
		r.certificate(at, c)
	case "CERTIFICATE REQUEST":
		c, err := x509.ParseCertificateRequest(b.Bytes)
		if err != nil {
			r.add(at, err.Error())
			return
		}
		r.add(at+"/subject", formatName(c.Subject))
		r.add(at+"/signature", c.SignatureAlgorithm.String())
		r.add(at+"/key", keyAlgorithm(c.PublicKey))
		r.names(at, c.DNSNames, formatAll(c.IPAddresses))
		r.extensions(at, c.Extensions)
	default:
		r.add(at+"/key", keyAlgorithmOf(b))
	}
}

// certificate adds all fields of a certificate except random ones.
func (r factCollector) certificate(at string, c *x509.Certificate) {
	r.add(at+"/subject", formatName(c.Subject))
	r.add(at+"/issuer", formatName(c.Issuer))
	r.add(at+"/version", strconv.Itoa(c.Version))
	r.add(at+"/signature", c.SignatureAlgorithm.String())
	r.add(at+"/key", keyAlgorithm(c.PublicKey))
	r.add(at+"/ca", fmt.Sprintf("%v %v %d", c.BasicConstraintsValid, c.IsCA, c.MaxPathLen))
	r.add(at+"/usage", fmt.Sprintf("%09b", c.KeyUsage))
	r.add(at+"/extended-usage", fmt.Sprint(c.ExtKeyUsage))
	r.add(at+"/valid", c.NotAfter.Sub(c.NotBefore).Round(time.Hour).String())
	r.add(at+"/until", r.since(c.NotAfter))
	r.add(at+"/key-id", fmt.Sprintf("%d bytes, authority's %d bytes", len(c.SubjectKeyId),
		len(c.AuthorityKeyId)))
	r.names(at, c.DNSNames, formatAll(c.IPAddresses))
	r.extensions(at, c.Extensions)
}

// names adds the subject alternative names of a certificate; their order does not matter.
func (r factCollector) names(at string, dns, ips []string) {
	for _, name := range dns {
		r.add(at+"/dns/"+name, "yes")
	}
	for _, ip := range ips {
		r.add(at+"/ip/"+ip, "yes")
	}
}

func (r factCollector) extensions(at string, all []pkix.Extension) {
	for _, e := range all {
		r.add(at+"/extension/"+e.Id.String(), fmt.Sprintf("critical %v", e.Critical))
	}
}

func formatAll[T fmt.Stringer](all []T) []string {
	var s []string
	for _, v := range all {
		s = append(s, v.String())
	}
	return s
}

func formatName(n pkix.Name) string {
	slices.Sort(n.Organization)
	return fmt.Sprintf("CN=%s O=%s rest=%d", n.CommonName, strings.Join(n.Organization, ","),
		len(n.Names))
}

// keyAlgorithmOf returns the algorithm of the private or public key in a block.
func keyAlgorithmOf(b *pem.Block) string {
	parsers := []func([]byte) (any, error){
		func(d []byte) (any, error) { return x509.ParsePKCS1PrivateKey(d) },
		func(d []byte) (any, error) { return x509.ParseECPrivateKey(d) },
		x509.ParsePKCS8PrivateKey,
		x509.ParsePKIXPublicKey,
	}
	for _, parse := range parsers {
		if key, err := parse(b.Bytes); err == nil {
			return keyAlgorithm(key)
		}
	}
	return "unreadable"
}

func keyAlgorithm(key any) string {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return keyAlgorithm(&k.PublicKey)
	case *ecdsa.PrivateKey:
		return keyAlgorithm(&k.PublicKey)
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA-%d", k.Size()*8)
	case *ecdsa.PublicKey:
		return "ECDSA-" + k.Curve.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	}
	return fmt.Sprintf("%T", key)
}
