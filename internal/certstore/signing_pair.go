package certstore

import (
	"context"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// ReadSigningPair returns the change that copies the cluster CA of this machine to the pair with which
// kube-controller-manager signs, if the configuration of the cluster names that pair: a control plane
// node joins during a CA rotation. It is nil otherwise.
func ReadSigningPair(ctx context.Context, r state.Reader, n *node.Node) (change.Change, error) {
	value, _ := node.LastArg(n.Cluster.ControllerManager.Args, "cluster-signing-cert-file")
	if cert, _ := n.Paths.RotationSigner(); value != cert {
		return nil, nil
	}
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	ca, err := ReadCA(ctx, r, n, profile)
	if err != nil {
		return nil, err
	}
	key, err := state.ReadRequired(ctx, r, n.Paths.Key(profile.Base))
	if err != nil {
		return nil, err
	}
	return NewSigningPair(n.Paths, pki.EncodeCertificates(ca.Certificate), key), nil
}

// NewSigningPair returns the change that writes the pair with which kube-controller-manager signs
// during a CA rotation.
func NewSigningPair(p node.Paths, cert, key []byte) change.Change {
	certFile, keyFile := p.RotationSigner()
	return change.WriteKeyPair{
		Key:  change.WriteFile{Path: keyFile, Data: key, Mode: 0o600, Secret: true},
		Cert: change.WriteFile{Path: certFile, Data: cert, Mode: 0o644},
	}
}
