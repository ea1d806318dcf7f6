package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	"k8s.io/client-go/tools/clientcmd/api"
)

// CheckReuse reports whether a file found on disk may stay: its first CA
// certificate must be one of those expected. Another server URL is only worth
// a warning. Credentials are not looked at.
func (k *Kubeconfig) CheckReuse(expected []*x509.Certificate, server string, read ReadFile) (warnings []string, err error) {
	cluster, err := k.CurrentCluster()
	if err != nil {
		return nil, err
	}
	path, data := cluster.CertificateAuthority, cluster.CertificateAuthorityData
	if err := embed(read, &path, &data); err != nil {
		return nil, err
	}
	trusted, err := ParseCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of a kubeconfig: %w", err)
	}
	if !slices.ContainsFunc(expected, trusted[0].Equal) {
		return nil, fmt.Errorf("kubeconfig trusts CA %q (%s), which is not this cluster's: move the file away to have a new one made",
			trusted[0].Subject.CommonName, PinOf(trusted[0]))
	}
	if cluster.Server != server {
		warnings = append(warnings, fmt.Sprintf("kubeconfig points to %s, where %s was expected; it is kept as it is",
			cluster.Server, server))
	}
	return warnings, nil
}

// ClientCertificate returns the certificate embedded for the current user: the
// first one, should there be several.
func (k *Kubeconfig) ClientCertificate() (*x509.Certificate, error) {
	user, err := k.CurrentUser()
	if err != nil {
		return nil, err
	}
	if len(user.ClientCertificateData) == 0 {
		return nil, errors.New("kubeconfig embeds no client certificate for its current user")
	}
	certs, err := ParseCertificates(user.ClientCertificateData)
	if err != nil {
		return nil, fmt.Errorf("reading client-certificate-data of a kubeconfig: %w", err)
	}
	return certs[0], nil
}

// Renew replaces the current cluster's CA and the current user's certificate
// and key, all PEM, and leaves everything else alone. What it replaces must be
// embedded, not referred to.
func (k *Kubeconfig) Renew(ca, cert, key []byte) error {
	cluster, err := k.CurrentCluster()
	if err != nil {
		return err
	}
	if len(cluster.CertificateAuthorityData) == 0 {
		return errors.New("kubeconfig embeds no CA certificate for its current cluster")
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

// FollowRotation makes the current user read certificate and key from a file
// that the kubelet keeps fresh, instead of the embedded pair.
func (k *Kubeconfig) FollowRotation(pemFile string) error {
	user, err := k.CurrentUser()
	if err != nil {
		return err
	}
	user.ClientCertificateData, user.ClientKeyData = nil, nil
	user.ClientCertificate, user.ClientKey = pemFile, pemFile
	return nil
}

// HasCredentials reports whether the current user, if there is one, can prove
// who it is in any way that kubeconfigs know.
func (k *Kubeconfig) HasCredentials() bool {
	user, err := k.CurrentUser()
	return err == nil && hasCredentials(user)
}

func hasCredentials(u *api.AuthInfo) bool {
	certificate := (u.ClientCertificate != "" || len(u.ClientCertificateData) > 0) &&
		(u.ClientKey != "" || len(u.ClientKeyData) > 0)
	return certificate || u.Token != "" || u.TokenFile != "" ||
		(u.Username != "" && u.Password != "") || u.Exec != nil || u.AuthProvider != nil
}
