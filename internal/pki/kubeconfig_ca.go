package pki

import (
	"bytes"
	"crypto/x509"
	"slices"
)

// ReplaceCA sets the embedded CA of each cluster that trusts one of the certificates in known to the
// bundle ca, both PEM. It reports whether it has changed anything.
func (k *Kubeconfig) ReplaceCA(known, ca []byte) (changed bool, err error) {
	certs, err := ParseCertificates(known)
	if err != nil {
		return false, err
	}
	for _, cluster := range k.Clusters {
		trusted, err := ParseCertificates(cluster.CertificateAuthorityData)
		if err != nil || bytes.Equal(cluster.CertificateAuthorityData, ca) ||
			!slices.ContainsFunc(trusted, func(t *x509.Certificate) bool {
				return slices.ContainsFunc(certs, t.Equal)
			}) {
			continue
		}
		cluster.CertificateAuthorityData, changed = ca, true
	}
	return changed, nil
}

// WithoutCertificates returns the certificates of a bundle that are not in another one.
func WithoutCertificates(bundle, unwanted []byte) ([]byte, error) {
	all, err := ParseCertificates(bundle)
	if err != nil {
		return nil, err
	}
	drop, err := ParseCertificates(unwanted)
	if err != nil {
		return nil, err
	}
	return EncodeCertificates(slices.DeleteFunc(all,
		func(c *x509.Certificate) bool { return slices.ContainsFunc(drop, c.Equal) })...), nil
}
