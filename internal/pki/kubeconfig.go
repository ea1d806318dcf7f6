package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/clientcmd/api/latest"
)

// Kubeconfig is the content of a kubeconfig file. It is client-go's api.Config with more methods,
// and the two convert to each other.
type Kubeconfig api.Config

// ReadFile returns the content of a file that a kubeconfig refers to.
type ReadFile func(path string) ([]byte, error)

// KubeconfigSpec describes a new kubeconfig without its credentials.
type KubeconfigSpec struct {
	Server  string // URL of the API server
	Cluster string // name of the cluster entry
	User    string // name of the user entry; the context is called user@cluster
	CA      []byte // PEM; may be empty until an external signer provides it
}

// WithCertificate returns a kubeconfig with a client certificate and its key, both
// PEM. The certificate may be nil until an external signer provides it.
func (a KubeconfigSpec) WithCertificate(cert, key []byte) *Kubeconfig {
	return a.withUser(&api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

// WithToken returns a kubeconfig with a bearer token.
func (a KubeconfigSpec) WithToken(token string) *Kubeconfig {
	return a.withUser(&api.AuthInfo{Token: token})
}

func (a KubeconfigSpec) withUser(user *api.AuthInfo) *Kubeconfig {
	name := a.User + "@" + a.Cluster
	return &Kubeconfig{
		Clusters: map[string]*api.Cluster{a.Cluster: {Server: a.Server,
			CertificateAuthorityData: a.CA}},
		AuthInfos:      map[string]*api.AuthInfo{a.User: user},
		Contexts:       map[string]*api.Context{name: {Cluster: a.Cluster, AuthInfo: a.User}},
		CurrentContext: name,
	}
}

// ParseKubeconfig parses YAML or JSON.
func ParseKubeconfig(data []byte) (*Kubeconfig, error) {
	config := api.NewConfig()
	_, _, err := latest.Codec.Decode(data, nil, config)
	if runtime.IsNotRegisteredError(err) { // too technical to show
		return nil, errors.New("parsing a kubeconfig: its kind is not Config of apiVersion v1")
	}
	if err != nil {
		return nil, fmt.Errorf("parsing a kubeconfig: %w", err)
	}
	return (*Kubeconfig)(config), nil
}

// Encode returns the YAML that kubectl would write.
func (k *Kubeconfig) Encode() ([]byte, error) {
	data, err := runtime.Encode(latest.Codec, (*api.Config)(k))
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return data, nil
}

// CurrentCluster returns the cluster of the current context.
func (k *Kubeconfig) CurrentCluster() (*api.Cluster, error) {
	context, err := k.currentContext()
	if err != nil {
		return nil, err
	}
	cluster := k.Clusters[context.Cluster]
	if cluster == nil {
		return nil, fmt.Errorf("kubeconfig context %q refers to cluster %q, which does not exist",
			k.CurrentContext, context.Cluster)
	}
	return cluster, nil
}

// CurrentUser returns the credentials of the current context.
func (k *Kubeconfig) CurrentUser() (*api.AuthInfo, error) {
	context, err := k.currentContext()
	if err != nil {
		return nil, err
	}
	user := k.AuthInfos[context.AuthInfo]
	if user == nil {
		return nil, fmt.Errorf("kubeconfig context %q refers to user %q, which does not exist",
			k.CurrentContext, context.AuthInfo)
	}
	return user, nil
}

func (k *Kubeconfig) currentContext() (*api.Context, error) {
	context := k.Contexts[k.CurrentContext]
	if k.CurrentContext != "" && context != nil {
		return context, nil
	}
	var names []string
	for name := range k.Contexts {
		names = append(names, fmt.Sprintf("%q", name))
	}
	slices.Sort(names)
	if len(names) > 5 {
		names = append(names[:5], "...")
	}
	listed := strings.Join(names, ", ")
	switch {
	case k.CurrentContext == "" && listed == "":
		return nil, errors.New("kubeconfig has no current context")
	case k.CurrentContext == "":
		return nil, fmt.Errorf("kubeconfig has no current context: set current-context to one of its contexts, %s", listed)
	case listed == "":
		return nil, fmt.Errorf("current-context %q of the kubeconfig does not exist",
			k.CurrentContext)
	}
	return nil, fmt.Errorf("current-context %q of the kubeconfig does not exist; existing contexts: %s",
		k.CurrentContext, listed)
}

// Endpoint returns the API server of the current context as an argument of "kubeadm join":
// without "https://".
func (k *Kubeconfig) Endpoint() (string, error) {
	cluster, err := k.CurrentCluster()
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(cluster.Server, "https://", ""), nil
}

// EmbeddedCAs returns the CA certificates embedded for the current cluster.
func (k *Kubeconfig) EmbeddedCAs() ([]*x509.Certificate, error) {
	cluster, err := k.CurrentCluster()
	if err != nil {
		return nil, err
	}
	certs, err := ParseCertificates(cluster.CertificateAuthorityData)
	if err != nil {
		return nil, fmt.Errorf("reading certificate-authority-data of a kubeconfig: %w", err)
	}
	return certs, nil
}

// SetServer sets the server URL of every cluster, and removes the TLS server name and proxy of the
// old one.
func (k *Kubeconfig) SetServer(server string) {
	for _, cluster := range k.Clusters {
		cluster.Server, cluster.TLSServerName, cluster.ProxyURL = server, "", ""
	}
}
