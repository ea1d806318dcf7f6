// Package discovery finds the cluster that a machine is to join, and trusts nothing that it cannot
// verify.
package discovery

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// Node discovers the cluster, reads its configuration and returns the configuration of this
// machine as a node of it.
func Node(ctx context.Context, e *engine.Env) (*node.Node, error) {
	e = e.Named("discovery")
	find := findClusterByToken
	if e.Local.Discovery.File != "" {
		find = findClusterByFile
	}
	verified, err := find(ctx, e, e.Local.Discovery)
	if err != nil {
		return nil, err
	}
	n, err := verified.reader.read(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := verified.bootstrap.RenameCluster(n.Cluster.Name); err != nil {
		return nil, err
	}
	cluster, err := verified.bootstrap.CurrentCluster()
	if err != nil {
		return nil, err
	}
	// The CA goes into a file that all users may read.
	cluster.CertificateAuthorityData, err = pki.WithoutPrivateKeys(cluster.CertificateAuthorityData)
	if err != nil {
		return nil, fmt.Errorf("reading the discovered CA: %w", err)
	}
	n.BootstrapKubeconfig, err = verified.bootstrap.Encode()
	return n, err
}

// ExistingNode returns the configuration of a machine that is a node of the cluster already,
// without the kubelet's and kube-proxy's.
func ExistingNode(ctx context.Context, e *engine.Env, as state.Identity) (*node.Node, error) {
	var stored corev1.ConfigMap
	if err := readConfigMap(ctx, e.World, configMapRef(manifest.KubeadmConfigMap, as),
		&stored); err != nil {
		return nil, fmt.Errorf("reading the cluster's configuration: %w", err)
	}
	n, warnings, err := config.CompleteMember(e.Local, stored.Data[manifest.KubeadmConfigKey],
		e.Tool)
	for _, w := range warnings {
		e.Warn("%s", untrusted.Line(w))
	}
	return n, err
}

// verifiedCluster is a cluster whose CA is trusted.
type verifiedCluster struct {
	bootstrap *pki.Kubeconfig // for the kubelet's TLS bootstrap
	reader    configReader
}
