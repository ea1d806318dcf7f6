package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"kubeadm/internal/untrusted"
)

// EmbedFiles replaces file names of the discovered cluster and of the current user by the content
// of the files, unless data is embedded already. A kubeconfig without a current user is anonymous.
func (k *Kubeconfig) EmbedFiles(read ReadFile) error {
	if err := k.EmbedCA(read); err != nil {
		return err
	}
	user, err := k.CurrentUser()
	if err != nil {
		return nil
	}
	if err := embedFile(read, &user.ClientCertificate, &user.ClientCertificateData); err != nil {
		return err
	}
	if err := embedFile(read, &user.ClientKey, &user.ClientKeyData); err != nil {
		return err
	}
	if user.TokenFile == "" {
		return nil
	}
	var token []byte // client-go prefers the file to a token beside it
	if err := embedFile(read, &user.TokenFile, &token); err != nil {
		return err
	}
	user.Token = strings.TrimSpace(string(token))
	return nil
}

// EmbedCA is EmbedFiles for the CA alone: the credentials of the user are not read.
func (k *Kubeconfig) EmbedCA(read ReadFile) error {
	cluster, err := k.DiscoveryCluster()
	if err != nil {
		return err
	}
	return embedFile(read, &cluster.CertificateAuthority, &cluster.CertificateAuthorityData)
}

func embedFile(read ReadFile, path *string, data *[]byte) error {
	if len(*data) == 0 && *path != "" {
		content, err := read(*path)
		if errors.Is(err, fs.ErrNotExist) {
			return missingFileError{*path}
		}
		if err != nil {
			return fmt.Errorf("reading a file that a kubeconfig refers to: %w",
				untrusted.Error(err))
		}
		*data = content
	}
	*path = ""
	return nil
}

// missingFileError is the error of a file that a kubeconfig refers to and that does not exist,
// such as the client certificate of a kubelet before its TLS bootstrap. It is fs.ErrNotExist.
type missingFileError struct{ path string }

func (e missingFileError) Error() string {
	return fmt.Sprintf("the kubeconfig refers to the file %s, which does not exist",
		untrusted.Line(e.path))
}

func (e missingFileError) Is(target error) bool { return target == fs.ErrNotExist }

// ClientCertificate returns the first certificate embedded for the current user.
func (k *Kubeconfig) ClientCertificate() (*x509.Certificate, error) {
	user, err := k.CurrentUser()
	if err != nil {
		return nil, err
	}
	if len(user.ClientCertificateData) == 0 {
		return nil, NotEmbeddedError{File: user.ClientCertificate, Instead: credentialOf(user)}
	}
	certs, err := ParseCertificates(user.ClientCertificateData)
	if err != nil {
		return nil, fmt.Errorf("reading client-certificate-data of a kubeconfig: %w", err)
	}
	return certs[0], nil
}

// NotEmbeddedError is the error of a kubeconfig without a client certificate in itself.
type NotEmbeddedError struct {
	File    string // that contains the certificate, as the kubeconfig names it; empty if there is none
	Instead string // what the current user authenticates with
}

func (e NotEmbeddedError) Error() string {
	return "kubeconfig does not embed a client certificate for its current user, which authenticates with " +
		untrusted.Line(e.Instead)
}

// Renew replaces the CA of the current cluster and the certificate and key of the current
// user, all PEM. It returns an error if they are not embedded.
func (k *Kubeconfig) Renew(ca, cert, key []byte) error {
	cluster, err := k.CurrentCluster()
	if err != nil {
		return err
	}
	if len(cluster.CertificateAuthorityData) == 0 {
		return errors.New("kubeconfig does not embed a CA certificate for its current cluster")
	}
	if _, err := k.ClientCertificate(); err != nil {
		return err
	}
	user, err := k.CurrentUser()
	if err != nil {
		return err
	}
	cluster.CertificateAuthorityData = ca
	user.ClientCertificateData, user.ClientKeyData = cert, key
	return nil
}

// UseRotatedCertificate replaces the embedded certificate and key of the current user by the file
// that the kubelet updates when it rotates its client certificate.
func (k *Kubeconfig) UseRotatedCertificate(pemFile string) error {
	user, err := k.CurrentUser()
	if err != nil {
		return err
	}
	user.ClientCertificateData, user.ClientKeyData = nil, nil
	user.ClientCertificate, user.ClientKey = pemFile, pemFile
	return nil
}
