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

// ReadRenewable reads a certificate that can be renewed. It returns nil without an error if the
// file does not exist.
func ReadRenewable(ctx context.Context, r state.Reader, p node.Paths,
	c pki.Renewable) (*x509.Certificate, error) {
	path := RenewablePath(p, c)
	data, err := state.ReadOptional(ctx, r, path)
	if err != nil || data == nil {
		return nil, err
	}
	cert, err := c.Certificate(data)
	if err != nil {
		return nil, problem.New("reading "+path, err,
			"restore a good copy of the file, or move it away and run the phase of kubeadm init that generates it")
	}
	return cert, nil
}

// Errors of key files. CheckRenewableKey, and IsExternalCA for the key of the CA, wrap them.
var (
	// ErrKeyMismatch says that the key belongs to another certificate.
	ErrKeyMismatch = errors.New("does not match")
	// ErrUnusableKey says that the file contains no key that kubeadm can use.
	ErrUnusableKey = errors.New("contains no usable private key")
)

// CheckRenewableKey returns an error if the key file does not belong to the certificate file: a
// renewal may be killed after it has written one of the two. A kubeconfig contains both, so it is
// always consistent.
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
		return fmt.Errorf("%s %w: %w", p.Key(c.Base), ErrUnusableKey, err)
	case !pki.IsKeyOf(key, cert.PublicKey):
		return fmt.Errorf("%s %w %s", p.Key(c.Base), ErrKeyMismatch, p.Cert(c.Base))
	}
	return nil
}

// RenewablePath returns the file that contains the certificate.
func RenewablePath(p node.Paths, c pki.Renewable) string {
	if c.File != "" {
		return p.Kubeconfig(c.File)
	}
	return p.Cert(c.Base)
}
