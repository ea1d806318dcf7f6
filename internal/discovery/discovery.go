// Package discovery finds the cluster that a machine is to join, and trusts nothing that it cannot
// verify.
package discovery

import (
	"context"
	"crypto/x509"
	"fmt"

	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
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

// verifiedCluster is a cluster whose CA is trusted.
type verifiedCluster struct {
	bootstrap *pki.Kubeconfig // for the kubelet's TLS bootstrap
	reader    configReader
}

// matchPins returns those of the CA certificates that have one of the hashes, all of them if there
// are no hashes. It is an error if none matches.
func matchPins(certs []*x509.Certificate, hashes []string) ([]*x509.Certificate, error) {
	if len(hashes) == 0 {
		return certs, nil
	}
	return pki.MatchPins(certs, hashes)
}

const comparePinsHint = "compare --discovery-token-ca-cert-hash with the hash that a control plane node prints: kubeadm token create --print-join-command"
