package survey

import (
	"context"
	"crypto/x509"

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
