package certstore

import (
	"context"
	"crypto/x509"
	"fmt"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// ReadRenewable reads a certificate that can be renewed; nil without an error where its file does not exist.
func ReadRenewable(ctx context.Context, r state.Reader, p node.Paths, c pki.Renewable) (*x509.Certificate, error) {
	path := RenewablePath(p, c)
	data, err := state.ReadOptional(ctx, r, path)
	if err != nil || data == nil {
		return nil, err
	}
	cert, err := c.Certificate(data)
	if err != nil {
		return nil, problem.New("reading "+path, err, "put back a good copy of the file, or move it away and have a new one made by a phase of kubeadm init")
	}
	return cert, nil
}

// CheckRenewableKey is an error if the key beside a certificate is not the one that belongs to it: two files are never written at once, and a
// renewal may be killed between them. What is in a kubeconfig is written as one.
func CheckRenewableKey(ctx context.Context, r state.Reader, p node.Paths, c pki.Renewable) error {
	if c.File != "" {
		return nil
	}
	cert, err := ReadRenewable(ctx, r, p, c)
	if err != nil || cert == nil {
		return err
	}
	text, err := state.ReadRequired(ctx, r, p.Key(c.Base))
	if err != nil {
		return err
	}
	key, err := pki.ParseKey(text)
	switch {
	case err != nil:
		return fmt.Errorf("%s holds no private key that can be used: %w", p.Key(c.Base), err)
	case !pki.Owns(key, cert):
		return fmt.Errorf("%s is not the key of %s", p.Key(c.Base), p.Cert(c.Base))
	}
	return nil
}

// RenewablePath is where the certificate is kept.
func RenewablePath(p node.Paths, c pki.Renewable) string {
	if c.File != "" {
		return p.Kubeconfig(c.File)
	}
	return p.Cert(c.Base)
}
