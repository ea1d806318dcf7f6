package pki

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd/api"
)

// The names in a kubeconfig with a bootstrap token, which is written before the
// name of the cluster is known.
const (
	BootstrapUser    = "tls-bootstrap-token-user"
	BootstrapCluster = "kubernetes"
)

// ClusterInfo returns the kubeconfig of the ConfigMap cluster-info: server and CA of the
// current cluster under an empty name, without users and contexts.
func (k *Kubeconfig) ClusterInfo() (*Kubeconfig, error) {
	cluster, err := k.CurrentCluster()
	if err != nil {
		return nil, err
	}
	if len(cluster.CertificateAuthorityData) == 0 {
		return nil, errors.New("kubeconfig does not embed a CA certificate for cluster-info")
	}
	ca, err := WithoutPrivateKeys(cluster.CertificateAuthorityData) // cluster-info is public
	if err != nil {
		return nil, fmt.Errorf("reading certificate-authority-data of a kubeconfig: %w", err)
	}
	return &Kubeconfig{Clusters: map[string]*api.Cluster{"": {
		Server:                   cluster.Server,
		CertificateAuthorityData: ca,
	}}}, nil
}

// DiscoveryCluster returns the cluster of a discovery kubeconfig: the one with an empty name,
// else that of the current context.
func (k *Kubeconfig) DiscoveryCluster() (*api.Cluster, error) {
	if cluster := k.Clusters[""]; cluster != nil {
		return cluster, nil
	}
	if len(k.Clusters) == 0 {
		return nil, errors.New("kubeconfig has no clusters")
	}
	return k.CurrentCluster()
}

// NewBootstrapKubeconfig returns the kubeconfig with which the kubelet of a joining node requests
// its client certificate, authenticated by a bootstrap token.
func NewBootstrapKubeconfig(discovered *api.Cluster, token string) (*Kubeconfig, error) {
	if _, err := ParseCertificates(discovered.CertificateAuthorityData); err != nil {
		return nil, fmt.Errorf("reading the discovered CA: %w", err)
	}
	k := NewAnonymousKubeconfig(discovered)
	k.AuthInfos[BootstrapUser].Token = token
	return k, nil
}

// NewAnonymousKubeconfig returns a kubeconfig for the discovered cluster without credentials. It
// keeps the cluster's TLS server name and proxy. Without a CA the server is verified against the
// host's trust store.
func NewAnonymousKubeconfig(discovered *api.Cluster) *Kubeconfig {
	k := KubeconfigSpec{
		Server: discovered.Server, Cluster: BootstrapCluster, User: BootstrapUser,
		CA: discovered.CertificateAuthorityData,
	}.WithToken("")
	cluster := k.Clusters[BootstrapCluster]
	cluster.TLSServerName, cluster.ProxyURL = discovered.TLSServerName, discovered.ProxyURL
	return k
}

// RenameCluster gives the discovered cluster that name and points the current context to it. All
// other clusters, contexts and users are removed.
func (k *Kubeconfig) RenameCluster(name string) error {
	cluster, err := k.DiscoveryCluster()
	if err != nil {
		return err
	}
	context, err := k.currentContext()
	if err != nil {
		return err
	}
	k.Clusters = map[string]*api.Cluster{name: cluster}
	k.Contexts = map[string]*api.Context{k.CurrentContext: context}
	context.Cluster = name
	users := map[string]*api.AuthInfo{}
	if user := k.AuthInfos[context.AuthInfo]; user != nil {
		users[context.AuthInfo] = user
	}
	k.AuthInfos = users
	return nil
}
