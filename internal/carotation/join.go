package carotation

import (
	"context"

	"kubeadm/internal/certstore"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// PrepareJoin writes the pair with which kube-controller-manager signs, if the configuration of the
// cluster names it: a control plane node joins in the middle of a rotation.
func PrepareJoin(ctx context.Context, e *engine.Env, n *node.Node) error {
	value, _ := node.LastArg(n.Cluster.ControllerManager.Args, "cluster-signing-cert-file")
	if cert, _ := n.Paths.RotationSigner(); value != cert {
		return nil
	}
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	ca, err := certstore.ReadCA(ctx, e.World, n, profile)
	if err != nil {
		return err
	}
	key, err := state.ReadRequired(ctx, e.World, n.Paths.Key(profile.Base))
	if err != nil {
		return err
	}
	e.Say("the CAs of the cluster are being replaced: run kubeadm certs rotate-ca trust on this " +
		"node when it has joined")
	return e.Do(ctx, newSigningPair(n.Paths, pki.EncodeCertificates(ca.Certificate), key))
}
