// Package certstore reads and checks the certificates, keys and kubeconfig files of this machine: those that are there
// must be usable before anything is built on them. It only reads.
package certstore

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// ReadCA is a CA that signs for this machine, or that what is here was signed by. It must be valid now. That it is not
// here is an error that names the remedy.
func ReadCA(ctx context.Context, r state.Reader, n *node.Node, p pki.Profile) (pki.CA, error) {
	found, err := ReadPair(ctx, r, n.Paths, p.Base)
	if err != nil {
		return pki.CA{}, err
	}
	if found.Certificate == nil {
		remedy := "run the certs/" + p.Name + " phase first"
		if n.Joins() {
			remedy = "run the control-plane-prepare/download-certs phase first, or copy the shared certificates from a control plane"
		}
		return pki.CA{}, problem.New("", fmt.Errorf("the certificate authority %s does not exist", n.Paths.Cert(p.Base)), remedy)
	}
	return CheckCA(n.Paths, p, found, r.Now())
}

// CheckCA reads a CA whose certificate is here. It must be that of a CA, valid at that time, and fit its key if
// that is here. Every phase that signs or verifies by a CA, and preflight, asks this.
func CheckCA(paths node.Paths, p pki.Profile, found pki.Stored, at time.Time) (pki.CA, error) {
	ca, err := parseCA(paths, p, found)
	if err != nil {
		return ca, err
	}
	return ca, checkPeriod("the certificate authority "+paths.Cert(p.Base), ca.Certificate, at,
		"if the clock is right, the cluster needs a new CA: everything that the old one signed, and every file that holds it, must be replaced with it")
}

// checkPeriod is an error with hints if the certificate is not valid at that time.
func checkPeriod(op string, cert *x509.Certificate, at time.Time, hints ...string) error {
	err := pki.CheckPeriod(cert, at)
	if err == nil {
		return nil
	}
	if at.Before(cert.NotBefore) {
		hints = hints[:0]
	}
	return problem.New(op, err, append([]string{"compare this machine's clock with that of the machine that made the certificate: timedatectl"}, hints...)...)
}

// parseCA is an authority whose certificate is that of one, and whose key, if it is here, belongs to it.
func parseCA(paths node.Paths, p pki.Profile, found pki.Stored) (pki.CA, error) {
	cert, key := paths.Cert(p.Base), paths.Key(p.Base)
	ca, err := found.CA()
	switch {
	case err != nil:
	case !ca.Certificate.IsCA:
		err = errors.New("it is not a certificate authority: its basic constraints lack CA:TRUE")
	case ca.Certificate.KeyUsage != 0 && ca.Certificate.KeyUsage&x509.KeyUsageCertSign == 0:
		err = errors.New("it may not sign certificates: its key usage lacks keyCertSign (Certificate Sign)")
	}
	if err != nil {
		return ca, problem.New("using the existing "+cert, err, "fix the file, or move it away to have a new one made")
	}
	switch {
	case found.Key != nil && ca.Key == nil:
		_, err := pki.ParseKey(found.Key)
		return ca, problem.New("", fmt.Errorf("%s holds no private key that can be used: %w", key, err), "put back the key that belongs to "+cert)
	case found.Key != nil && !ca.Owns():
		return ca, problem.New("", fmt.Errorf("%s is not the key of %s", key, cert), "put back the key that belongs to "+cert)
	}
	return ca, nil
}

// HasExternalTokenSigner reports whether another program than kube-apiserver signs service account tokens (KEP-740).
func HasExternalTokenSigner(n *node.Node) bool {
	endpoint, _ := node.LastArg(n.Cluster.APIServer.Args, "service-account-signing-endpoint")
	return endpoint != ""
}

// CheckServiceAccountKeys is an error if the files of the key pair of service accounts that are here are damaged or do not
// belong together. sa.pub alone is an error too, unless tokens are signed elsewhere: a new pair would replace it, and
// whatever the old key signed be refused.
func CheckServiceAccountKeys(ctx context.Context, r state.Reader, n *node.Node) error {
	keyFile, pubFile := n.Paths.Certificate(pki.ServiceAccountKey), n.Paths.Certificate(pki.ServiceAccountPublicKey)
	private, err := state.ReadOptional(ctx, r, keyFile)
	if err != nil {
		return err
	}
	public, err := state.ReadOptional(ctx, r, pubFile)
	switch {
	case err != nil || private == nil && public == nil:
		return err
	case private == nil && HasExternalTokenSigner(n):
		return nil
	case private == nil:
		if external, err := HasExternalClusterCA(ctx, r, n.Paths); err != nil || external {
			return err // nothing is made then
		}
		return problem.New("", fmt.Errorf("%s exists without %s", pubFile, keyFile),
			"put back the private key that belongs to it; to have a new pair made, move "+pubFile+" away",
			"if another program signs service account tokens: name it in apiServer.extraArgs, service-account-signing-endpoint")
	}
	key, err := pki.ParseKey(private)
	if err != nil {
		return problem.New("using the existing "+keyFile, err, "fix the file, or move it and "+pubFile+" away to have a new pair made")
	}
	if public == nil {
		return nil
	}
	fits, err := pki.HoldsPublicHalf(public, key)
	switch {
	case err != nil:
		return problem.New("using the existing "+pubFile, err, "move it away to have it made from "+keyFile)
	case !fits:
		return problem.New("", fmt.Errorf("%s does not hold the public half of %s: service account tokens would be refused", pubFile, keyFile),
			"put back the files that belong together; or move "+pubFile+" away to have it made from "+keyFile)
	}
	return nil
}

// HasExternalClusterCA tells whether the cluster's CA is here without its key.
func HasExternalClusterCA(ctx context.Context, r state.Reader, p node.Paths) (bool, error) {
	cert, err := state.Exists(ctx, r, p.Cert("ca"))
	if err != nil || !cert {
		return false, err
	}
	key, err := state.Exists(ctx, r, p.Key("ca"))
	return !key, err
}

// ReadPair reads the two files of a certificate by its base name, such as "etcd/server".
func ReadPair(ctx context.Context, r state.Reader, p node.Paths, base string) (s pki.Stored, err error) {
	s.Certificate, err = state.ReadOptional(ctx, r, p.Cert(base))
	if err == nil {
		s.Key, err = state.ReadOptional(ctx, r, p.Key(base))
	}
	return s, err
}

// CheckDiscoveredCA is an error if the CA is not one of those of the cluster that this machine has found.
func CheckDiscoveredCA(n *node.Node, ca *x509.Certificate) error {
	config, err := pki.ParseKubeconfig(n.Bootstrap)
	if err != nil {
		return err
	}
	found, err := config.Trusted()
	if err == nil && !slices.ContainsFunc(found, ca.Equal) {
		err = errors.New("it is of another cluster than the one that was found")
	}
	return err
}
