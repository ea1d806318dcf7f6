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

// IsExternalCA tells whether the key of an authority is not on this machine. Then what the authority has signed
// for this machine must be here, each with its key: an error names every file with which something is wrong.
func IsExternalCA(ctx context.Context, r state.Reader, p node.Paths, ca pki.Profile) (bool, error) {
	found, err := ReadPair(ctx, r, p, ca.Base)
	if err != nil {
		return false, err
	}
	path := p.Cert(ca.Base)
	if found.Certificate == nil {
		return false, problem.New("", fmt.Errorf("the certificate authority %s does not exist", path),
			"put it there, or name another folder with --cert-dir")
	}
	own, err := parseCA(p, ca, found)
	if err != nil || found.Key != nil {
		return false, err
	}
	if err := (externalCA{ca, own.Certificate}).supplied(ctx, r, p); err != nil {
		return true, problem.New("the key of "+path+" is not on this machine, so what it signs must be here", err,
			"put the files there as the keeper of the authority makes them, or put "+p.Key(ca.Base)+" beside its certificate")
	}
	return true, nil
}

// externalCA is one of the authorities, with its certificate.
type externalCA struct {
	pki.Profile
	certificate *x509.Certificate
}

// supplied wants all that the authority signs in files of their own to be here, each with its key. Whether they have
// ended is not asked.
func (a externalCA) supplied(ctx context.Context, r state.Reader, p node.Paths) error {
	var errs []error
	for _, w := range pki.Profiles() {
		if w.Issuer != a.Name {
			continue
		}
		found, err := ReadPair(ctx, r, p, w.Base)
		if err != nil {
			return err
		}
		errs = append(errs, a.signed(p, w, found))
	}
	return errors.Join(errs...)
}

// signed wants the authority to have signed the certificate, and its key to be beside it.
func (a externalCA) signed(p node.Paths, w pki.Profile, found pki.Stored) error {
	switch {
	case found.Certificate == nil:
		return fmt.Errorf("%s does not exist", p.Cert(w.Base))
	case found.Key == nil:
		return fmt.Errorf("%s does not exist", p.Key(w.Base))
	}
	certs, err := pki.ParseCertificates(found.Certificate)
	if err == nil {
		_, err = found.Pair(a.certificate, pki.Begun(append(certs, a.certificate)...))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Cert(w.Base), err)
	}
	return nil
}

// CheckUploadable is an error if what control planes share may not be lent to others, as the key of an authority is not among
// it: who borrows the rest could not make certificates of his own.
func CheckUploadable(ctx context.Context, r state.Reader, n *node.Node) error {
	for _, name := range []string{pki.ClusterCA, pki.FrontProxyCA} {
		p, _ := pki.ProfileOf(name)
		found, err := ReadPair(ctx, r, n.Paths, p.Base)
		if err != nil {
			return err
		}
		if found.Certificate != nil && found.Key == nil {
			return problem.New("", fmt.Errorf("the certificates cannot be lent to other control planes: %s is not on this machine", n.Paths.Key(p.Base)),
				"leave out --upload-certs, and bring each control plane its own certificates and what all share by hand")
		}
	}
	return nil
}
