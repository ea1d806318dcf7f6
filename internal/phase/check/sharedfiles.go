package check

import (
	"context"
	"errors"
	"fmt"

	"kubeadm/internal/certstore"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// checkControlPlaneEndpoint is an error if the cluster has no endpoint that control planes share.
func checkControlPlaneEndpoint(n *node.Node) error {
	if n.Cluster.Endpoint != "" {
		return nil
	}
	return problem.New(
		errors.New("no control plane node can be added to this cluster: its configuration has no controlPlaneEndpoint, an address that all control plane nodes share"),
		"give it one, a DNS name or the address of a load balancer, on its control plane node: "+
			"kubeadm endpoint change HOST[:PORT]",
		"or join this machine as a worker, without --control-plane")
}

// checkSharedFiles checks that the files that all control planes share are on this machine, as
// they are not downloaded.
func checkSharedFiles(ctx context.Context, e *engine.Env, n *node.Node) error {
	var errs []error
	for _, p := range pki.Profiles() {
		if !p.IsCA() || p.LocalEtcdOnly() && n.Cluster.Etcd.External != nil {
			continue
		}
		if err := checkSharedCA(ctx, e, n, p); err != nil {
			errs = append(errs, err)
		}
	}
	if err := checkServiceAccountKeyPair(ctx, e, n); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return nil
	}
	return problem.During("checking the shared certificates", errors.Join(errs...),
		"upload them on a control plane node: kubeadm token create --print-join-command --upload-certs",
		"or copy them manually from a control plane node to "+n.Paths.Certificates)
}

func checkSharedCA(ctx context.Context, e *engine.Env, n *node.Node, p pki.Profile) error {
	found, err := certstore.ReadPair(ctx, e.World, n.Paths, p.Base)
	if err != nil {
		return err
	}
	path := n.Paths.Cert(p.Base)
	if found.Certificate == nil {
		return fmt.Errorf("%s does not exist", path)
	}
	ca, err := certstore.CheckCA(n.Paths, p, found, e.World.Now())
	if err != nil {
		return err
	}
	if p.Name == pki.ClusterCA {
		if err := certstore.CheckDiscoveredCA(n, ca.Certificate); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if !ca.CanIssue() {
		e.Warn("%s is not on this machine, so the certificates that it signs must already exist",
			n.Paths.Key(p.Base))
	}
	return nil
}

// checkServiceAccountKeyPair checks the key pair that signs and verifies service account tokens.
func checkServiceAccountKeyPair(ctx context.Context, e *engine.Env, n *node.Node) error {
	var errs []error
	for _, half := range []string{pki.ServiceAccountKey, pki.ServiceAccountPublicKey} {
		_, err := state.ReadRequired(ctx, e.World, n.Paths.Certificate(half))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return certstore.CheckServiceAccountKeys(ctx, e.World, n)
}
