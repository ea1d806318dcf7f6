package preflight

import (
	"context"
	"errors"

	"kubeadm/internal/certstore"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// checkCertificates looks at those that are here before the first control plane begins.
func checkCertificates(ctx context.Context, e *flow.Env, n *node.Node) error {
	err := errors.Join(checkExistingCAs(ctx, e, n), certstore.CheckServiceAccountKeys(ctx, e.World, n))
	if n.UploadCerts {
		err = errors.Join(err, certstore.CheckUploadable(ctx, e.World, n))
	}
	return err
}

// checkExistingCAs wants what authorities have made for this machine to be here, where their keys are kept elsewhere. All
// that is wrong is told before anything is done.
func checkExistingCAs(ctx context.Context, e *flow.Env, n *node.Node) error {
	var errs []error
	local, _ := node.LocalEtcd(n)
	for _, p := range pki.Profiles() {
		if !p.IsCA() || p.LocalEtcdOnly() && !local {
			continue
		}
		found, err := certstore.ReadPair(ctx, e.World, n.Paths, p.Base)
		if err != nil {
			return err
		}
		if found.Certificate == nil {
			continue // it is made by a later phase, or missed there
		}
		if _, err := certstore.CheckCA(n.Paths, p, found, e.World.Now()); err != nil {
			errs = append(errs, err)
			continue
		}
		elsewhere, err := certstore.IsExternalCA(ctx, e.World, n.Paths, p)
		errs = append(errs, err)
		if p.Name != pki.ClusterCA {
			continue
		}
		if elsewhere {
			errs = append(errs, checkFilesOfExternalCA(ctx, e, n, found))
		} else {
			errs = append(errs, checkExistingKubeconfigs(ctx, e, n, found))
		}
	}
	return errors.Join(errs...)
}

// checkFilesOfExternalCA wants the files that are made with the key of the cluster's CA, or not at all where that is kept elsewhere.
func checkFilesOfExternalCA(ctx context.Context, e *flow.Env, n *node.Node, ca pki.Stored) error {
	var errs []error
	for _, p := range pki.KubeconfigProfiles() {
		if p.OnJoin || !n.Joins() {
			errs = append(errs, checkKubeconfig(ctx, e, n.Paths.Kubeconfig(p.File), ca))
		}
	}
	if !n.Joins() {
		for _, half := range []string{pki.ServiceAccountKey, pki.ServiceAccountPublicKey} {
			_, err := state.ReadRequired(ctx, e.World, n.Paths.Certificate(half))
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if err == nil {
		return nil
	}
	return problem.New("without the key of the cluster's CA these files must be here", err,
		"make keys, kubeconfigs and requests for certificates: kubeadm certs generate-csr",
		"put what the keeper of the CA signs, and the CA, into the kubeconfigs; make the service account key pair with openssl")
}

// checkExistingKubeconfigs looks at those that exist already and that a later phase would keep.
func checkExistingKubeconfigs(ctx context.Context, e *flow.Env, n *node.Node, ca pki.Stored) error {
	var errs []error
	for _, p := range pki.KubeconfigProfiles() {
		path := n.Paths.Kubeconfig(p.File)
		data, err := state.ReadOptional(ctx, e.World, path)
		if data != nil && (p.OnJoin || !n.Joins()) {
			err = checkKubeconfig(ctx, e, path, ca)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// checkKubeconfig wants a kubeconfig whose user can get into the cluster. Where it leads is for a later phase to doubt.
func checkKubeconfig(ctx context.Context, e *flow.Env, path string, ca pki.Stored) error {
	data, err := state.ReadRequired(ctx, e.World, path)
	if err != nil {
		return err
	}
	cas, err := pki.ParseCertificates(ca.Certificate)
	if err != nil {
		return nil // found already
	}
	_, _, err = certstore.KubeconfigFile{Path: path, Data: data, CAs: cas}.Check(ctx, e.World)
	return err
}
