package certstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"path"
	"strings"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// ReadRenewable reads a certificate that can be renewed. It returns nil without an error if the
// file does not exist.
func ReadRenewable(ctx context.Context, r state.Reader, p node.Paths,
	c pki.Renewable) (*x509.Certificate, error) {
	file := RenewablePath(p, c)
	data, err := state.ReadOptional(ctx, r, file)
	if err != nil || data == nil {
		return nil, err
	}
	cert, err := c.Certificate(data)
	if err != nil {
		return nil, problem.During("reading "+file, err, restoreHints(p, c, data, err)...)
	}
	return cert, nil
}

// restoreHints say how to get a file that kubeadm can renew.
func restoreHints(p node.Paths, c pki.Renewable, data []byte, err error) []string {
	if c.File != "" {
		replace := "move it out of the way and generate a new one: kubeadm init phase kubeconfig " +
			strings.TrimSuffix(c.File, ".conf")
		if errors.As(err, new(pki.NotEmbeddedError)) {
			return []string{"renew this credential as it was created; or, for a certificate that kubeadm renews, " + replace}
		}
		return []string{"restore a good copy of the file, or " + replace}
	}
	replace := []string{"restore a good copy of the file, or move it and " + p.Key(c.Base) +
		" away and generate new ones: kubeadm init phase certs " + c.Name}
	if _, err := x509.ParseCertificate(data); err == nil {
		return append([]string{untrusted.CommandHint("it is in DER format, which components cannot read; convert it",
			"openssl x509 -inform der -in %s -out", p.Cert(c.Base), p.Cert(c.Base))}, replace...)
	}
	return replace
}

// ReadCertificate is ReadRenewable, and also reads the certificate file that a kubeconfig names. Such
// a certificate is not kubeadm's to renew.
func ReadCertificate(ctx context.Context, r state.Reader, p node.Paths,
	c pki.Renewable) (*x509.Certificate, error) {
	cert, err := ReadRenewable(ctx, r, p, c)
	var named pki.NotEmbeddedError
	if !errors.As(err, &named) || named.File == "" {
		return cert, err
	}
	file := named.File
	if !pki.IsAbsolute(file) {
		file = path.Join(path.Dir(RenewablePath(p, c)), file)
	}
	data, err := state.ReadRequired(ctx, r, file)
	err = untrusted.Error(err)
	var certs []*x509.Certificate
	if err == nil {
		if certs, err = pki.ParseCertificates(data); err != nil {
			err = fmt.Errorf("%s: %w", untrusted.Line(file), err)
		}
	}
	if err != nil {
		return nil, problem.During("reading the client certificate of "+RenewablePath(p, c), err,
			"fix client-certificate of the kubeconfig, or the file")
	}
	return certs[0], nil
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
