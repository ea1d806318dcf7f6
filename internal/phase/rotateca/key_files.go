package rotateca

import (
	"context"
	"crypto/x509"
	"errors"
	"path"
	"slices"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/rotation"
	"kubeadm/internal/state"
)

// Directories of a rotation. They exist on control plane nodes while it is in progress.
func rotationDir(p node.Paths) string { return p.Certificate("ca-rotation") }

// sidePath is the directory with the old or new files.
func sidePath(p node.Paths, isNew bool) node.Paths {
	p.Certificates = path.Join(rotationDir(p), sideName(isNew))
	return p
}

func sideName(isNew bool) string {
	if isNew {
		return "new"
	}
	return "old"
}

// parseCA parses a certificate and its key.
func parseCA(public, key []byte) (pki.CA, error) {
	return pki.StoredPair{Certificate: public, Key: key}.ParseCA()
}

// readKey returns the private key that belongs to a certificate or public key, from the first of
// these files that has it.
func readKey(ctx context.Context, r state.Reader, a rotation.Authority, public string,
	files ...string) ([]byte, error) {
	want, err := a.ParsePublicKey([]byte(public))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := state.ReadOptional(ctx, r, file)
		if err != nil {
			return nil, err
		}
		if data == nil {
			continue
		}
		key, err := pki.ParseKey(data)
		if err == nil && pki.IsKeyOf(key, want) {
			return data, nil
		}
	}
	return nil, errKeyMissing
}

// errKeyMissing is the error of a key that is not on this machine.
var errKeyMissing = errors.New("the key is not on this machine")

// isSignedBy reports whether one of the CAs in PEM form has signed the certificate.
func isSignedBy(cert *x509.Certificate, ca []byte) bool {
	certs, err := pki.ParseCertificates(ca)
	return err == nil && slices.ContainsFunc(certs, func(c *x509.Certificate) bool {
		return cert.CheckSignatureFrom(c) == nil
	})
}

// firstPublic returns the first certificate or public key of a file, in PEM form.
func firstPublic(a rotation.Authority, data []byte) ([]byte, error) {
	if !a.IsCA() {
		key, err := a.ParsePublicKey(data)
		if err != nil {
			return nil, err
		}
		return pki.EncodePublicKey(key)
	}
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		return nil, err
	}
	return pki.EncodeCertificates(certs[0]), nil
}
