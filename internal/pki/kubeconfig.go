package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/clientcmd/api/latest"

	"kubeadm/internal/untrusted"
)

// Kubeconfig is a kubeconfig file in memory. It converts to and from client-go's
// api.Config, of which it is another name with methods.
type Kubeconfig api.Config

// ReadFile returns the content of a file that a kubeconfig refers to.
type ReadFile func(path string) ([]byte, error)

// Access is what a new kubeconfig says besides its credentials.
type Access struct {
	Server  string // URL of the API server
	Cluster string // name of the cluster entry
	User    string // name of the user entry; the context is called user@cluster
	CA      []byte // PEM; may be empty while a signer elsewhere is awaited
}

// WithCertificate returns a kubeconfig that presents a client certificate, both
// PEM. The certificate may be nil while a signer elsewhere is awaited.
func (a Access) WithCertificate(cert, key []byte) *Kubeconfig {
	return a.as(&api.AuthInfo{ClientCertificateData: cert, ClientKeyData: key})
}

// WithToken returns a kubeconfig that presents a bearer token.
func (a Access) WithToken(token string) *Kubeconfig {
	return a.as(&api.AuthInfo{Token: token})
}

func (a Access) as(user *api.AuthInfo) *Kubeconfig {
	name := a.User + "@" + a.Cluster
	return &Kubeconfig{
		Clusters:       map[string]*api.Cluster{a.Cluster: {Server: a.Server, CertificateAuthorityData: a.CA}},
		AuthInfos:      map[string]*api.AuthInfo{a.User: user},
		Contexts:       map[string]*api.Context{name: {Cluster: a.Cluster, AuthInfo: a.User}},
		CurrentContext: name,
	}
}

// ParseKubeconfig reads YAML or JSON.
func ParseKubeconfig(data []byte) (*Kubeconfig, error) {
	config := api.NewConfig()
	_, _, err := latest.Codec.Decode(data, nil, config)
	if runtime.IsNotRegisteredError(err) { // which shows a parser's insides
		return nil, errors.New("parsing a kubeconfig: it is of another kind than Config of v1")
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
		return nil, fmt.Errorf("kubeconfig context %q names cluster %q, which it does not define",
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
		return nil, fmt.Errorf("kubeconfig context %q names user %q, which it does not define",
			k.CurrentContext, context.AuthInfo)
	}
	return user, nil
}

func (k *Kubeconfig) currentContext() (*api.Context, error) {
	if k.CurrentContext == "" {
		text := "kubeconfig has no current context"
		if len(k.Contexts) > 0 {
			text += ": set current-context to one of its contexts, " + k.contextNames()
		}
		return nil, errors.New(text)
	}
	context := k.Contexts[k.CurrentContext]
	if context == nil {
		text := fmt.Sprintf("kubeconfig has no context %q, though its current-context names it", k.CurrentContext)
		if len(k.Contexts) > 0 {
			text += "; it has " + k.contextNames()
		}
		return nil, errors.New(text)
	}
	return context, nil
}

// Endpoint is the API server of the current context as "kubeadm join" wants
// it: without "https://".
func (k *Kubeconfig) Endpoint() (string, error) {
	cluster, err := k.CurrentCluster()
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(cluster.Server, "https://", ""), nil
}

// Trusted returns the CA certificates embedded for the current cluster.
func (k *Kubeconfig) Trusted() ([]*x509.Certificate, error) {
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

// Redirect points every cluster to another API server URL, without the detours that led to the one before.
func (k *Kubeconfig) Redirect(server string) {
	for _, cluster := range k.Clusters {
		cluster.Server, cluster.TLSServerName, cluster.ProxyURL = server, "", ""
	}
}

// Embed replaces the files that the discovered cluster and the current user, if
// there is one, refer to by their content, as far as content is not there
// already.
func (k *Kubeconfig) Embed(read ReadFile) error {
	cluster, err := k.DiscoveryCluster()
	if err != nil {
		return err
	}
	if err := embed(read, &cluster.CertificateAuthority, &cluster.CertificateAuthorityData); err != nil {
		return err
	}
	user, err := k.CurrentUser()
	if err != nil {
		return nil // anonymous: a published cluster-info names nobody
	}
	return embedUser(read, user)
}

func embedUser(read ReadFile, user *api.AuthInfo) error {
	if err := embed(read, &user.ClientCertificate, &user.ClientCertificateData); err != nil {
		return err
	}
	if err := embed(read, &user.ClientKey, &user.ClientKeyData); err != nil {
		return err
	}
	if user.TokenFile == "" {
		return nil
	}
	var token []byte // a file outranks a token beside it, as it is the fresher one
	if err := embed(read, &user.TokenFile, &token); err != nil {
		return err
	}
	user.Token = strings.TrimSpace(string(token))
	return nil
}

// missingFileError is the error of a file that a kubeconfig refers to and that does not exist, as before
// a kubelet has its client certificate. It is fs.ErrNotExist.
type missingFileError struct{ path string }

func (e missingFileError) Error() string {
	return fmt.Sprintf("the kubeconfig refers to the file %s, which does not exist", untrusted.Line(e.path))
}

func (e missingFileError) Is(target error) bool { return target == fs.ErrNotExist }

func embed(read ReadFile, path *string, data *[]byte) error {
	if len(*data) == 0 && *path != "" {
		content, err := read(*path)
		if errors.Is(err, fs.ErrNotExist) {
			return missingFileError{*path}
		}
		if err != nil {
			return fmt.Errorf("reading a file that a kubeconfig refers to: %w", untrusted.Error(err))
		}
		*data = content
	}
	*path = ""
	return nil
}
