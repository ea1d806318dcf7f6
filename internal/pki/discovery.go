package pki

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/clientcmd/api"
)

// The names in a kubeconfig made from a bootstrap token, before the cluster's
// own name is known.
const (
	BootstrapUser    = "tls-bootstrap-token-user"
	BootstrapCluster = "kubernetes"
)

// ClusterInfo returns the kubeconfig that the ConfigMap cluster-info publishes:
// where the current cluster is and which CA it has, under an empty name, with
// no user and no context.
func (k *Kubeconfig) ClusterInfo() (*Kubeconfig, error) {
	cluster, err := k.CurrentCluster()
	if err != nil {
		return nil, err
	}
	if len(cluster.CertificateAuthorityData) == 0 {
		return nil, errors.New("kubeconfig embeds no CA certificate to publish")
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

// DiscoveryCluster returns the cluster a discovery document speaks of: the one
// without a name, else that of the current context.
func (k *Kubeconfig) DiscoveryCluster() (*api.Cluster, error) {
	if cluster := k.Clusters[""]; cluster != nil {
		return cluster, nil
	}
	if len(k.Clusters) == 0 {
		return nil, errors.New("kubeconfig names no cluster")
	}
	return k.CurrentCluster()
}

// Bootstrap returns the kubeconfig by which a joining kubelet introduces itself
// with a bootstrap token at the cluster that was discovered.
func Bootstrap(discovered *api.Cluster, token string) (*Kubeconfig, error) {
	if _, err := ParseCertificates(discovered.CertificateAuthorityData); err != nil {
		return nil, fmt.Errorf("reading the discovered CA: %w", err)
	}
	return introduction(discovered, token), nil
}

// Anonymous returns a kubeconfig that leads to the discovered cluster and says nothing of
// who asks. Without a CA the server is verified by the host's roots.
func Anonymous(discovered *api.Cluster) *Kubeconfig { return introduction(discovered, "") }

// introduction leads to the discovered cluster in the way that it was discovered.
func introduction(discovered *api.Cluster, token string) *Kubeconfig {
	k := Access{Server: discovered.Server, Cluster: BootstrapCluster, User: BootstrapUser, CA: discovered.CertificateAuthorityData}.WithToken(token)
	to := k.Clusters[BootstrapCluster]
	to.TLSServerName, to.ProxyURL = discovered.TLSServerName, discovered.ProxyURL
	return k
}

// RenameCluster leaves exactly one cluster, the discovered one, under that
// name, and lets the current context point to it. Of contexts and users the current
// ones stay, under their names: what others are there leads elsewhere.
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
