package rotation

import (
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// Names of what can be replaced, as in --ca.
const (
	ClusterAuthority        = "cluster"
	FrontProxyAuthority     = "front-proxy"
	EtcdAuthority           = "etcd"
	ServiceAccountAuthority = "service-account"
)

// Authority is a CA, or the key of the service accounts.
type Authority struct {
	Name      string
	Profile   string // name of the CA's profile; empty for the service account key
	PublicKey string // file of the certificate or public key, below the certificates directory
	Key       string // file of the private key
}

// Authorities lists all, in the order in which they are replaced.
func Authorities() []Authority {
	return []Authority{
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

// FindAuthority returns the authority of that name.
func FindAuthority(name string) (Authority, bool) {
	all := Authorities()
	i := slices.IndexFunc(all, func(a Authority) bool { return a.Name == name })
	if i < 0 {
		return Authority{}, false
	}
	return all[i], true
}

// CheckNames returns an error if a name is not that of an authority.
func CheckNames(names []string) error {
	for _, name := range names {
		if _, ok := FindAuthority(name); !ok {
			return problem.New(fmt.Errorf("--ca: unknown name %q", name),
				"set it to one or more of "+strings.Join(AuthorityNames(), ","))
		}
	}
	return nil
}

// IsCA is false for the key of the service accounts.
func (a Authority) IsCA() bool { return a.Profile != "" }

// CheckPublic is an error unless the text is exactly one CA certificate or public key.
func (a Authority) CheckPublic(text []byte) error {
	f, err := pki.ParseFile(text)
	switch {
	case err != nil:
		return err
	case a.IsCA() && (len(f.Certificates) != 1 || !f.Certificates[0].IsCA):
		return errors.New("it is not a single CA certificate")
	case !a.IsCA() && len(f.PublicKeys) != 1:
		return errors.New("it is not a single public key")
	case len(f.Keys) > 0:
		return errors.New("it contains a private key")
	}
	return nil
}

// ParsePublicKey is the public key in a text that CheckPublic accepts.
func (a Authority) ParsePublicKey(text []byte) (crypto.PublicKey, error) {
	f, err := pki.ParseFile(text)
	switch {
	case err != nil:
		return nil, err
	case a.IsCA() && len(f.Certificates) > 0:
		return f.Certificates[0].PublicKey, nil
	case !a.IsCA() && len(f.PublicKeys) > 0:
		return f.PublicKeys[0], nil
	}
	return nil, errors.New("it does not contain a public key")
}
