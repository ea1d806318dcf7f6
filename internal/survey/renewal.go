package survey

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// Renewable reads a certificate that can be renewed; nil without an error where its file does not exist.
func Renewable(ctx context.Context, r change.Reader, p node.Paths, c pki.Renewable) (*x509.Certificate, error) {
	path := RenewableFile(p, c)
	data, err := Optional(ctx, r, path)
	if err != nil || data == nil {
		return nil, err
	}
	cert, err := c.Certificate(data)
	if err != nil {
		return nil, problem.New("reading "+path, err, "put back a good copy of the file, or move it away and have a new one made by a phase of kubeadm init")
	}
	return cert, nil
}

// RenewableFile is where the certificate is kept.
func RenewableFile(p node.Paths, c pki.Renewable) string {
	if c.File != "" {
		return p.Kubeconfig(c.File)
	}
	return p.Cert(c.Base)
}

// KeptElsewhere tells whether the key of an authority is not on this machine. Then what the authority has signed
// for this machine must be here, each with its key: an error names every file with which something is wrong.
func KeptElsewhere(ctx context.Context, r change.Reader, p node.Paths, ca pki.Profile) (bool, error) {
	found, err := Stored(ctx, r, p, ca.Base)
	if err != nil {
		return false, err
	}
	path := p.Cert(ca.Base)
	if found.Certificate == nil {
		return false, problem.New("", fmt.Errorf("the certificate authority %s does not exist", path),
			"put it there, or name another folder with --cert-dir")
	}
	authority, err := found.CA()
	if err == nil && !authority.Certificate.IsCA {
		err = errors.New("it is not a certificate authority")
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if found.Key != nil {
		return false, nil
	}
	if err := Supplied(ctx, r, p, authority.Certificate, signedBy(ca)...); err != nil {
		return true, problem.New("the key of "+path+" is not on this machine, so what it signs must be here", err,
			"put the files there as the keeper of the authority makes them, or put "+p.Key(ca.Base)+" beside its certificate")
	}
	return true, nil
}

// signedBy are the certificates in files of their own that the authority signs.
func signedBy(ca pki.Profile) []pki.Profile {
	var all []pki.Profile
	for _, p := range pki.Profiles() {
		if p.Issuer == ca.Name {
			all = append(all, p)
		}
	}
	return all
}

// Supplied wants certificates that cannot be made here to be here: signed by the authority, each with its own
// key. Whether they have ended is not asked.
func Supplied(ctx context.Context, r change.Reader, p node.Paths, ca *x509.Certificate, wanted ...pki.Profile) error {
	var errs []error
	for _, w := range wanted {
		found, err := Stored(ctx, r, p, w.Base)
		if err != nil {
			return err
		}
		errs = append(errs, supplied(p, w, found, ca))
	}
	return errors.Join(errs...)
}

func supplied(p node.Paths, w pki.Profile, found pki.Stored, ca *x509.Certificate) error {
	switch {
	case found.Certificate == nil:
		return fmt.Errorf("%s does not exist", p.Cert(w.Base))
	case found.Key == nil:
		return fmt.Errorf("%s does not exist", p.Key(w.Base))
	}
	certs, err := pki.ParseCertificates(found.Certificate)
	if err == nil {
		_, err = found.Pair(ca, pki.Begun(append(certs, ca)...))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Cert(w.Base), err)
	}
	return nil
}
