package pki

import (
	"crypto/x509"
	"slices"
	"strings"
)

// Renewable is a certificate that "certs renew" renews: a pair of files, or embedded in a
// kubeconfig.
type Renewable struct {
	Name    string // as in "certs renew <name>"
	Purpose string // what it is, for messages
	Issuer  string // name of the CA that signs it
	Base    string // below the certificates directory, without .crt or .key; empty for a kubeconfig
	File    string // name of the kubeconfig; empty for a pair of files
}

// Renewables lists the renewable certificates by name. CAs are not included, nor is the kubelet's
// kubeconfig: the kubelet rotates its client certificate itself.
func Renewables() []Renewable {
	var all []Renewable
	for _, p := range Profiles() {
		if !p.IsCA() {
			all = append(all, Renewable{Name: p.Name, Purpose: p.Purpose, Issuer: p.Issuer,
				Base: p.Base})
		}
	}
	for _, p := range KubeconfigProfiles() {
		if !p.PerNode {
			all = append(all, Renewable{Name: p.File, Issuer: ClusterCA,
				Purpose: "the client certificate of " + p.Purpose, File: p.File})
		}
	}
	slices.SortFunc(all, func(a, b Renewable) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// LocalEtcdOnly reports whether the certificate exists only where etcd runs on the control plane.
func (r Renewable) LocalEtcdOnly() bool { return r.Issuer == EtcdCA }

// Certificate returns the first certificate in the content of the file.
func (r Renewable) Certificate(file []byte) (*x509.Certificate, error) {
	if r.File == "" {
		certs, err := ParseCertificates(file)
		if err != nil {
			return nil, err
		}
		return certs[0], nil
	}
	config, err := ParseKubeconfig(file)
	if err != nil {
		return nil, err
	}
	return config.ClientCertificate()
}

// RenewalSpec returns the Spec with which cert is renewed. It keeps common name, organizations, DNS
// and IP SANs and extended key usages, and drops all other fields.
func RenewalSpec(cert *x509.Certificate, v Validity) Spec {
	return Spec{
		CommonName:   cert.Subject.CommonName,
		Organization: cert.Subject.Organization,
		SANs:         newSANs(cert.DNSNames, cert.IPAddresses),
		Usages:       cert.ExtKeyUsage,
		Validity:     v,
	}
}
