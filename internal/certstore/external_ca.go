package certstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// IsExternalCA reports whether the key of a CA is not on this machine. If so, every
// certificate that the CA signs for this machine must exist with its key; the error names
// every file that is missing or unusable.
func IsExternalCA(ctx context.Context, r state.Reader, p node.Paths, ca pki.Profile) (bool, error) {
	found, err := ReadPair(ctx, r, p, ca.Base)
	if err != nil {
		return false, err
	}
	path := p.Cert(ca.Base)
	if found.Certificate == nil {
		return false, problem.New(fmt.Errorf("the certificate authority %s does not exist", path),
			"restore it, or set --cert-dir to another directory")
	}
	parsed, err := parseCA(p, ca, found)
	if err != nil || found.Key != nil {
		return false, err
	}
	var errs []error
	for _, profile := range pki.Profiles() {
		if profile.Issuer != ca.Name {
			continue
		}
		pair, err := ReadPair(ctx, r, p, profile.Base)
		if err != nil {
			return true, err
		}
		errs = append(errs, checkSignedPair(p, profile, pair, parsed.Certificate))
	}
	if err := errors.Join(errs...); err != nil {
		return true, problem.During("checking the certificates of the external CA "+path, err,
			"sign these certificates with the external CA and copy them here with their keys",
			"or copy the CA key to "+p.Key(ca.Base)+", so that kubeadm signs them")
	}
	return true, nil
}

// checkSignedPair returns an error unless the certificate was signed by the CA and its key
// exists. It does not check whether the certificate has expired.
func checkSignedPair(p node.Paths, profile pki.Profile, pair pki.StoredPair,
	ca *x509.Certificate) error {
	switch {
	case pair.Certificate == nil:
		return fmt.Errorf("%s does not exist", p.Cert(profile.Base))
	case pair.Key == nil:
		return fmt.Errorf("%s does not exist", p.Key(profile.Base))
	}
	certs, err := pki.ParseCertificates(pair.Certificate)
	if err == nil {
		_, err = pair.VerifyPair(ca, pki.LatestNotBefore(append(certs, ca)...))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Cert(profile.Base), err)
	}
	return nil
}

// CheckUploadable returns an error if the key of a CA is not on this machine: a control plane
// that downloads the shared certificates could not generate its own without it.
func CheckUploadable(ctx context.Context, r state.Reader, n *node.Node) error {
	for _, name := range []string{pki.ClusterCA, pki.FrontProxyCA} {
		p, _ := pki.ProfileOf(name)
		found, err := ReadPair(ctx, r, n.Paths, p.Base)
		if err != nil {
			return err
		}
		if found.Certificate != nil && found.Key == nil {
			return problem.New(
				fmt.Errorf("cannot upload the control plane certificates: %s is not on this machine", n.Paths.Key(p.Base)),
				"leave out --upload-certs, and copy the certificates to each control plane node manually")
		}
	}
	return nil
}
