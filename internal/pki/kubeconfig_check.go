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

// CheckComplete reports what the current context lacks to reach a server: it names a cluster and a user that are defined,
// and the cluster names its server. A kubeconfig without a user, or one whose user has no credentials, is complete.
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
	certificate, key := hasCertificate(user), hasKey(user)
	switch {
	case certificate && !key:
		return fmt.Errorf("user %q of the kubeconfig has a client certificate without its key: client-key-data or client-key is missing", context.AuthInfo)
	case key && !certificate:
		return fmt.Errorf("user %q of the kubeconfig has a client key without its certificate: client-certificate-data or client-certificate is missing", context.AuthInfo)
	}
	return nil
}

// ResolvePaths makes the names of files absolute that the kubeconfig refers to: they are relative to where it lies.
func (k *Kubeconfig) ResolvePaths(dir string) {
	resolve := func(name *string) {
		if *name != "" && !path.IsAbs(*name) {
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

func hasCertificate(u *api.AuthInfo) bool {
	return u.ClientCertificate != "" || len(u.ClientCertificateData) > 0
}

func hasKey(u *api.AuthInfo) bool { return u.ClientKey != "" || len(u.ClientKeyData) > 0 }

// contextNames lists the contexts for messages.
func (k *Kubeconfig) contextNames() string {
	var names []string
	for name := range k.Contexts {
		names = append(names, fmt.Sprintf("%q", name))
	}
	slices.Sort(names)
	const most = 5
	if len(names) > most {
		names = append(names[:most], "...")
	}
	return strings.Join(names, ", ")
}

// ClientPair returns the client certificate of the current user, with its intermediates, whether it is embedded or in a
// file; nil if it has none. Its key must be there and belong to it.
func (k *Kubeconfig) ClientPair(read ReadFile) ([]*x509.Certificate, error) {
	user, err := k.CurrentUser()
	if err != nil {
		return nil, err
	}
	if err := k.CheckComplete(); err != nil || !hasCertificate(user) {
		return nil, err
	}
	certificate, where, err := content(read, "client-certificate", user.ClientCertificate, user.ClientCertificateData)
	if err != nil {
		return nil, err
	}
	certs, err := ParseCertificates(certificate)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	secret, where, err := content(read, "client-key", user.ClientKey, user.ClientKeyData)
	if err != nil {
		return nil, err
	}
	key, err := ParseClientKey(secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if !Owns(key, certs[0]) {
		return nil, fmt.Errorf("its client key (%s) is that of another certificate than its client certificate %q", where, certs[0].Subject.CommonName)
	}
	return certs, nil
}

// content returns what a kubeconfig embeds, which outranks a file that it refers to, and where it stands.
func content(read ReadFile, field, file string, data []byte) ([]byte, string, error) {
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

// CheckClient is an error if the current user has a client certificate with which no API server of a cluster with these
// CAs lets it in at that time. Other credentials are not looked at.
func (k *Kubeconfig) CheckClient(cas []*x509.Certificate, at time.Time, read ReadFile) error {
	certs, err := k.ClientPair(read)
	if err != nil || certs == nil {
		return err
	}
	if err := CheckPeriod(certs[0], at); err != nil {
		return fmt.Errorf("its client %w", err)
	}
	var failed error
	for _, ca := range cas {
		if failed = VerifyChain(certs, ca, at); failed == nil {
			return nil
		}
	}
	return failed
}
