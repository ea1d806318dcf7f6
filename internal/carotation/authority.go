package carotation

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Names of what can be replaced, as in --ca.
const (
	ClusterAuthority        = "cluster"
	FrontProxyAuthority     = "front-proxy"
	EtcdAuthority           = "etcd"
	ServiceAccountAuthority = "service-account"
)

// authority is a CA, or the key of the service accounts.
type authority struct {
	name      string
	profile   string // name of the CA's profile; empty for the service account key
	publicKey string // file of the certificate or public key, below the certificates directory
	key       string // file of the private key
}

// authorities lists all, in the order in which they are replaced.
func authorities() []authority {
	return []authority{
		{EtcdAuthority, pki.EtcdCA, "etcd/ca.crt", "etcd/ca.key"},
		{FrontProxyAuthority, pki.FrontProxyCA, "front-proxy-ca.crt", "front-proxy-ca.key"},
		{ServiceAccountAuthority, "", pki.ServiceAccountPublicKey, pki.ServiceAccountKey},
		{ClusterAuthority, pki.ClusterCA, "ca.crt", "ca.key"},
	}
}

// AuthorityNames are the names of all authorities.
func AuthorityNames() []string {
	return []string{ClusterAuthority, FrontProxyAuthority, EtcdAuthority, ServiceAccountAuthority}
}

func authorityOf(name string) (authority, bool) {
	all := authorities()
	i := slices.IndexFunc(all, func(a authority) bool { return a.name == name })
	if i < 0 {
		return authority{}, false
	}
	return all[i], true
}

// CheckNames returns an error if a name is not that of an authority.
func CheckNames(names []string) error {
	for _, name := range names {
		if _, ok := authorityOf(name); !ok {
			return problem.New("", fmt.Errorf("--ca: unknown name %q", name),
				"set it to one or more of "+strings.Join(AuthorityNames(), ","))
		}
	}
	return nil
}

func (a authority) isCA() bool { return a.profile != "" }

// checkPublic is an error unless the text is exactly one CA certificate or public key.
func (a authority) checkPublic(text []byte) error {
	f, err := pki.ParseFile(text)
	switch {
	case err != nil:
		return err
	case a.isCA() && (len(f.Certificates) != 1 || !f.Certificates[0].IsCA):
		return errors.New("it is not one CA certificate")
	case !a.isCA() && len(f.PublicKeys) != 1:
		return errors.New("it is not one public key")
	case len(f.Keys) > 0:
		return errors.New("it has a private key")
	}
	return nil
}

// publicKeyOf is the public key in a text that checkPublic accepts.
func (a authority) publicKeyOf(text []byte) (crypto.PublicKey, error) {
	f, err := pki.ParseFile(text)
	switch {
	case err != nil:
		return nil, err
	case a.isCA() && len(f.Certificates) > 0:
		return f.Certificates[0].PublicKey, nil
	case !a.isCA() && len(f.PublicKeys) > 0:
		return f.PublicKeys[0], nil
	}
	return nil, errors.New("it has no public key")
}

// first returns the first certificate or public key of a file, in PEM form.
func (a authority) first(data []byte) ([]byte, error) {
	if !a.isCA() {
		key, err := a.publicKeyOf(data)
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
func (a authority) readKey(ctx context.Context, r state.Reader, public string,
	files ...string) ([]byte, error) {
	want, err := a.publicKeyOf([]byte(public))
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
