package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd/api"
)

// CheckComplete returns an error if the current context, its cluster, the cluster's server or the
// context's user is missing. A kubeconfig without a user, or with a user without credentials, is
// complete.
func (k *Kubeconfig) CheckComplete() error {
	if len(k.Clusters) == 0 && len(k.AuthInfos) == 0 && len(k.Contexts) == 0 {
		return errors.New("the kubeconfig is empty: it has no clusters, users and contexts")
	}
	context, err := k.currentContext()
	if err != nil {
		return err
	}
	cluster, err := k.CurrentCluster()
	if err != nil {
		return err
	}
	if cluster.Server == "" {
		return fmt.Errorf("cluster %q of the kubeconfig has no server", context.Cluster)
	}
	if context.AuthInfo == "" {
		return nil
	}
	user, err := k.CurrentUser()
	if err != nil {
		return err
	}
	switch certificate, key := hasClientPair(user); {
	case certificate && !key:
		return fmt.Errorf("user %q of the kubeconfig has a client certificate without its key: client-key-data or client-key is missing", context.AuthInfo)
	case key && !certificate:
		return fmt.Errorf("user %q of the kubeconfig has a client key without its certificate: client-certificate-data or client-certificate is missing", context.AuthInfo)
	}
	return nil
}

// ResolvePaths makes relative paths of files in the kubeconfig absolute. dir is the directory of
// the kubeconfig.
func (k *Kubeconfig) ResolvePaths(dir string) {
	resolve := func(name *string) {
		if *name != "" && !IsAbsolute(*name) {
			*name = path.Join(dir, *name)
		}
	}
	for _, c := range k.Clusters {
		resolve(&c.CertificateAuthority)
	}
	for _, u := range k.AuthInfos {
		resolve(&u.ClientCertificate)
		resolve(&u.ClientKey)
		resolve(&u.TokenFile)
	}
}

// IsAbsolute reports whether a path in a kubeconfig is absolute. On Windows it begins with a drive.
func IsAbsolute(name string) bool {
	hasDrive := len(name) > 2 && name[1] == ':' && (name[2] == '\\' || name[2] == '/')
	return hasDrive || path.IsAbs(name) || strings.HasPrefix(name, `\\`)
}

// hasClientPair reports whether the user has a client certificate, and whether it has a client key,
// embedded or in files.
func hasClientPair(u *api.AuthInfo) (certificate, key bool) {
	return u.ClientCertificate != "" || len(u.ClientCertificateData) > 0,
		u.ClientKey != "" || len(u.ClientKeyData) > 0
}

// ClientPair returns the client certificate of the current user with its intermediates, embedded
// or from a file; nil if there is none. It returns an error if the key is missing or does not
// belong to the certificate.
func (k *Kubeconfig) ClientPair(read ReadFile) ([]*x509.Certificate, error) {
	user, err := k.CurrentUser()
	if err != nil {
		return nil, err
	}
	if err := k.CheckComplete(); err != nil {
		return nil, err
	}
	if exists, _ := hasClientPair(user); !exists {
		return nil, nil
	}
	certificate, where, err := readCredential(read, "client-certificate", user.ClientCertificate,
		user.ClientCertificateData)
	if err != nil {
		return nil, err
	}
	certs, err := ParseCertificates(certificate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	secret, where, err := readCredential(read, "client-key", user.ClientKey, user.ClientKeyData)
	if err != nil {
		return nil, err
	}
	key, err := ParseClientKey(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if !IsKeyOf(key, certs[0].PublicKey) {
		return nil, fmt.Errorf(
			"its client key (%s) does not match its client certificate %q",
			where, certs[0].Subject.CommonName)
	}
	return certs, nil
}

// readCredential returns the embedded data of a field, or else the content of its file, and the
// source for messages.
func readCredential(read ReadFile, field, file string, data []byte) ([]byte, string, error) {
	if len(data) > 0 {
		return data, field + "-data", nil
	}
	data, err := read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("its %s is the file %s, which does not exist", field, file)
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading its %s: %w", field, err)
	}
	return data, file, nil
}

// CheckClient returns an error if the client certificate of the current user has expired or was
// signed by none of the CAs. Other credentials are not checked.
func (k *Kubeconfig) CheckClient(cas []*x509.Certificate, at time.Time, read ReadFile) error {
	certs, err := k.ClientPair(read)
	if err != nil || certs == nil {
		return err
	}
	if err := CheckPeriod(certs[0], at); err != nil {
		return fmt.Errorf("its client %w", err)
	}
	for _, ca := range cas {
		if err = VerifyChain(certs, ca, at); err == nil {
			return nil
		}
	}
	return err
}

// CheckReuse returns an error unless the first CA certificate of an existing kubeconfig is one
// of the expected ones. A different server URL is a warning only. Credentials are not checked.
func (k *Kubeconfig) CheckReuse(expected []*x509.Certificate, server string,
	read ReadFile) (warnings []string, err error) {
	cluster, err := k.CurrentCluster()
	if err != nil {
		return nil, err
	}
	path, data := cluster.CertificateAuthority, cluster.CertificateAuthorityData
	if err := embedFile(read, &path, &data); err != nil {
		return nil, err
	}
	trusted, err := ParseCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("reading the CA of a kubeconfig: %w", err)
	}
	if !slices.ContainsFunc(expected, trusted[0].Equal) {
		return nil, fmt.Errorf(
			"kubeconfig trusts CA %q (%s), which is not the CA of this cluster",
			trusted[0].Subject.CommonName, PinOf(trusted[0]))
	}
	if cluster.Server != server {
		warnings = append(warnings,
			fmt.Sprintf("kubeconfig points to %s instead of %s; it is kept as it is",
				cluster.Server, server))
	}
	return warnings, nil
}

// HasCredentials reports whether the current user exists and has credentials of any type.
func (k *Kubeconfig) HasCredentials() bool {
	u, err := k.CurrentUser()
	if err != nil {
		return false
	}
	certificate, key := hasClientPair(u)
	return certificate && key || u.Token != "" || u.TokenFile != "" ||
		u.Username != "" && u.Password != "" || u.Exec != nil || u.AuthProvider != nil
}

// credentialOf says what the user authenticates with, in the order in which client-go chooses.
func credentialOf(u *api.AuthInfo) string {
	switch {
	case u.ClientCertificate != "":
		return "the certificate file " + u.ClientCertificate
	case u.Exec != nil:
		return "the program " + u.Exec.Command
	case u.AuthProvider != nil:
		return "the provider " + u.AuthProvider.Name
	case u.Token != "" || u.TokenFile != "":
		return "a token"
	case u.Username != "":
		return "a password"
	}
	return "nothing"
}
