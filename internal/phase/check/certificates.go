package check

import (
	"context"
	"errors"

	"kubeadm/internal/certstore"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// checkCertificates checks the existing certificates of a first control plane.
func checkCertificates(ctx context.Context, e *engine.Env, n *node.Node) error {
	err := errors.Join(checkExistingCAs(ctx, e, n),
		certstore.CheckServiceAccountKeys(ctx, e.World, n))
	if n.UploadCerts {
		err = errors.Join(err, certstore.CheckUploadable(ctx, e.World, n))
	}
	return err
}

// checkExistingCAs checks the existing CAs, and the files that must exist if the cluster's CA is
// external. It reports all errors together.
func checkExistingCAs(ctx context.Context, e *engine.Env, n *node.Node) error {
	var errs []error
	local, _ := node.HasLocalEtcd(n)
	for _, p := range pki.Profiles() {
		if !p.IsCA() || p.LocalEtcdOnly() && !local {
			continue
		}
		found, err := certstore.ReadPair(ctx, e.World, n.Paths, p.Base)
		if err != nil {
			return err
		}
		if found.Certificate == nil {
			continue // a later phase creates it, or fails
		}
		if _, err := certstore.CheckCA(n.Paths, p, found, e.World.Now()); err != nil {
			errs = append(errs, err)
			continue
		}
		external, err := certstore.IsExternalCA(ctx, e.World, n.Paths, p)
		errs = append(errs, err)
		if p.Name != pki.ClusterCA {
			continue
		}
		if external {
			errs = append(errs, checkFilesOfExternalCA(ctx, e, n, found))
		} else {
			errs = append(errs, checkExistingKubeconfigs(ctx, e, n, found))
		}
	}
	return errors.Join(errs...)
}

// checkFilesOfExternalCA checks that the files exist that cannot be created without the CA's key.
func checkFilesOfExternalCA(ctx context.Context, e *engine.Env, n *node.Node,
	ca pki.StoredPair) error {
	var errs []error
	for _, p := range pki.KubeconfigProfiles() {
		if p.OnJoin || !n.IsJoining() {
			errs = append(errs, checkKubeconfig(ctx, e, n.Paths.Kubeconfig(p.File), ca))
		}
	}
	if !n.IsJoining() {
		for _, half := range []string{pki.ServiceAccountKey, pki.ServiceAccountPublicKey} {
			_, err := state.ReadRequired(ctx, e.World, n.Paths.Certificate(half))
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return problem.During("with an external CA, whose key is not on this machine, these files must exist", err,
		"to generate keys, kubeconfigs and certificate signing requests: kubeadm certs generate-csr",
		"sign the requests with the external CA, and add the certificates and the CA to the kubeconfigs; generate the service account key pair with openssl")
}

// checkExistingKubeconfigs checks the existing kubeconfigs that a later phase would keep.
func checkExistingKubeconfigs(ctx context.Context, e *engine.Env, n *node.Node,
	ca pki.StoredPair) error {
	var errs []error
	for _, p := range pki.KubeconfigProfiles() {
		path := n.Paths.Kubeconfig(p.File)
		data, err := state.ReadOptional(ctx, e.World, path)
		if data != nil && (p.OnJoin || !n.IsJoining()) {
			err = checkKubeconfig(ctx, e, path, ca)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkKubeconfig checks that the cluster accepts the client certificate in a kubeconfig. A later
// phase checks its server.
func checkKubeconfig(ctx context.Context, e *engine.Env, path string, ca pki.StoredPair) error {
	data, err := state.ReadRequired(ctx, e.World, path)
	if err != nil {
		return err
	}
	cas, err := pki.ParseCertificates(ca.Certificate)
	if err != nil {
		return nil // already reported
	}
	_, _, err = certstore.KubeconfigFile{Path: path, Data: data, CAs: cas}.Check(ctx, e.World)
	return err
}
