package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"slices"
	"strings"
)

// Renewable is a certificate of a control plane that is renewed from time to time, in files of its own or
// inside a kubeconfig.
type Renewable struct {
	Name   string // as in "certs renew <name>"
	For    string // its purpose, for people
	Issuer string // name of the CA that signs it
	Base   string // below the certificates directory, without .crt or .key; empty for a kubeconfig
	File   string // name of the kubeconfig; empty for a certificate in files of its own
}

// Renewables lists them by name. Authorities are not among them, nor is the kubelet's kubeconfig: the kubelet
// renews its certificate itself.
func Renewables() []Renewable {
	var all []Renewable
	for _, p := range Profiles() {
		if !p.IsCA() {
			all = append(all, Renewable{Name: p.Name, For: p.For, Issuer: p.Issuer, Base: p.Base})
		}
	}
	for _, p := range KubeconfigProfiles() {
		if !p.PerNode {
			all = append(all, Renewable{Name: p.File, For: p.For, Issuer: ClusterCA, File: p.File})
		}
	}
	slices.SortFunc(all, func(a, b Renewable) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// LocalEtcdOnly reports whether the certificate exists only where etcd runs on the control plane.
func (r Renewable) LocalEtcdOnly() bool { return r.Issuer == EtcdCA }

// Certificate finds the certificate in the content of its file: the first one, should there be several.
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

// AlgorithmOf is the kind of a key, by its public half; false if no cluster may choose it.
func AlgorithmOf(key crypto.PublicKey) (Algorithm, bool) {
	var a Algorithm
	switch k := key.(type) {
	case *rsa.PublicKey:
		a = map[int]Algorithm{2048: RSA2048, 3072: RSA3072, 4096: RSA4096}[k.N.BitLen()]
	case *ecdsa.PublicKey:
		a = map[string]Algorithm{"P-256": ECDSAP256, "P-384": ECDSAP384}[k.Curve.Params().Name]
	}
	return a, a != ""
}
