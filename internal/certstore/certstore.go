// Package certstore reads and checks the existing certificates, keys and kubeconfig files of this
// machine before anything relies on them. It only reads.
package certstore

import (
	"bytes"
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
	"kubeadm/internal/untrusted"
)

// ReadCA reads a CA of this machine, whose key may be missing. The CA must exist and be
// valid now.
func ReadCA(ctx context.Context, r state.Reader, n *node.Node, p pki.Profile) (pki.CA, error) {
	found, err := ReadPair(ctx, r, n.Paths, p.Base)
	if err != nil {
		return pki.CA{}, err
	}
	if found.Certificate == nil {
		hints := []string{"in a new cluster, run this phase first: kubeadm init phase certs " + p.Name,
			"in an existing one, restore the file from a backup, or copy it from another control plane node"}
		if n.IsJoining() {
			hints = []string{
				"run this phase first: kubeadm join phase control-plane-prepare download-certs",
				"or copy the shared certificates from a control plane node",
			}
		}
		return pki.CA{}, problem.New(
			fmt.Errorf("the certificate authority %s does not exist", n.Paths.Cert(p.Base)), hints...)
	}
	return CheckCA(n.Paths, p, found, r.Now())
}

// CheckCA parses a CA. Its certificate must be a CA certificate that is valid at that
// time, and its key, if there is one, must belong to it. Preflight and every phase that signs or
// verifies with a CA use this.
func CheckCA(paths node.Paths, p pki.Profile, found pki.StoredPair, at time.Time) (pki.CA, error) {
	ca, err := parseCA(paths, p, found)
	if err != nil {
		return ca, err
	}
	err = pki.CheckPeriod(ca.Certificate, at)
	if err == nil {
		return ca, nil
	}
	hints := []string{"compare this machine's clock with that of the machine that generated the certificate: timedatectl"}
	if at.After(ca.Certificate.NotAfter) {
		hints = append(hints, "if the clock is right, the cluster needs a new CA: "+
			"replace everything that the old CA signed and every file that contains it",
			untrusted.CommandHint("or issue a new certificate for the same key and subject, so that everything signed with the key stays valid, "+
				"and install it on all nodes and in all kubeconfigs",
				"openssl x509 -in %s -signkey %s -days 3650 -out %s", paths.Cert(p.Base), paths.Key(p.Base),
				paths.Cert(p.Base)+".new"))
	}
	return ca, problem.During("checking the certificate authority "+paths.Cert(p.Base), err, hints...)
}

// parseCA parses a CA and checks that its key, if there is one, belongs to it. It does not
// look at the validity period.
func parseCA(paths node.Paths, p pki.Profile, found pki.StoredPair) (pki.CA, error) {
	cert, key := paths.Cert(p.Base), paths.Key(p.Base)
	ca, err := found.ParseCA()
	switch {
	case err != nil:
	case !ca.Certificate.IsCA:
		err = errors.New("it is not a certificate authority: its basic constraints do not include CA:TRUE")
	case ca.Certificate.KeyUsage != 0 && ca.Certificate.KeyUsage&x509.KeyUsageCertSign == 0:
		err = errors.New("it may not sign certificates: its key usage does not include keyCertSign (Certificate Sign)")
	}
	if err != nil {
		return ca, problem.During("using the existing "+cert, err,
			"fix the file, or move it out of the way so that kubeadm generates a new one")
	}
	switch {
	case found.Key != nil && ca.Key == nil:
		_, err := pki.ParseKey(found.Key)
		return ca, problem.New(fmt.Errorf("%s %w: %w", key, ErrUnusableKey, err),
			"restore the private key of "+cert)
	case found.Key != nil && !pki.IsKeyOf(ca.Key, ca.Certificate.PublicKey):
		return ca, problem.New(fmt.Errorf("%s %w %s", key, ErrKeyMismatch, cert),
			"restore the private key of "+cert)
	}
	return ca, nil
}

// CheckServiceAccountKeys returns an error if the existing sa.key and sa.pub are damaged or do not
// belong together. sa.pub without sa.key is an error too, unless an external program signs tokens:
// a new pair would replace it, and tokens signed by the old key would be rejected.
func CheckServiceAccountKeys(ctx context.Context, r state.Reader, n *node.Node) error {
	keyFile, pubFile := n.Paths.Certificate(pki.ServiceAccountKey),
		n.Paths.Certificate(pki.ServiceAccountPublicKey)
	private, err := state.ReadOptional(ctx, r, keyFile)
	if err != nil {
		return err
	}
	public, err := state.ReadOptional(ctx, r, pubFile)
	// another program than kube-apiserver signs service account tokens (KEP-740)
	signer, _ := node.LastArg(n.Cluster.APIServer.Args, "service-account-signing-endpoint")
	switch {
	case err != nil || private == nil && public == nil:
		return err
	case private == nil && signer != "":
		return nil
	case private == nil:
		if external, err := HasExternalClusterCA(ctx, r, n.Paths); err != nil || external {
			return err // with an external CA no key pair is generated
		}
		return problem.New(fmt.Errorf("%s exists without %s", pubFile, keyFile),
			"restore the private key; to generate a new pair, move "+
				pubFile+" out of the way",
			"if another program signs service account tokens: name it in apiServer.extraArgs, service-account-signing-endpoint")
	}
	key, err := pki.ParseKey(private)
	if err != nil {
		return problem.During("using the existing "+keyFile, err,
			"fix the file, or move it and "+pubFile+" out of the way so that kubeadm generates a new pair")
	}
	if public == nil {
		return nil
	}
	matches, err := pki.ContainsPublicKeyOf(public, key)
	switch {
	case err != nil:
		return problem.During("using the existing "+pubFile, err,
			"move it out of the way so that kubeadm generates it from "+keyFile)
	case !matches:
		return problem.New(
			fmt.Errorf("%s does not contain the public key of %s: service account tokens would be rejected", pubFile, keyFile),
			"restore the matching key pair, or move "+pubFile+
				" out of the way so that kubeadm generates it from "+keyFile)
	}
	return nil
}

// HasExternalClusterCA reports whether ca.crt exists without ca.key.
func HasExternalClusterCA(ctx context.Context, r state.Reader, p node.Paths) (bool, error) {
	cert, err := state.Exists(ctx, r, p.Cert("ca"))
	if err != nil || !cert {
		return false, err
	}
	key, err := state.Exists(ctx, r, p.Key("ca"))
	return !key, err
}

// ReadPair reads the two files of a certificate by its base name, such as "etcd/server".
func ReadPair(ctx context.Context, r state.Reader, p node.Paths,
	base string) (s pki.StoredPair, err error) {
	s.Certificate, err = state.ReadOptional(ctx, r, p.Cert(base))
	if err == nil {
		s.Key, err = state.ReadOptional(ctx, r, p.Key(base))
	}
	return s, err
}

// CheckDiscoveredCA returns an error if the CA is not one of those in the kubeconfig that
// discovery returned.
func CheckDiscoveredCA(n *node.Node, ca *x509.Certificate) error {
	config, err := pki.ParseKubeconfig(n.BootstrapKubeconfig)
	if err != nil {
		return err
	}
	found, err := config.EmbeddedCAs()
	if err == nil && !slices.ContainsFunc(found, ca.Equal) {
		err = errors.New("it is not a CA of the discovered cluster")
	}
	return err
}

// ReadTrusted returns the cluster CA as kubeconfigs embed it: with the other one of a CA rotation,
// which has the same subject, if ca.crt has both.
func ReadTrusted(ctx context.Context, r state.Reader, p node.Paths,
	ca *x509.Certificate) ([]byte, error) {
	data, err := state.ReadRequired(ctx, r, p.Cert("ca"))
	if err != nil {
		return nil, err
	}
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		return nil, err
	}
	trusted := []*x509.Certificate{ca}
	for _, c := range certs {
		if c.IsCA && !c.Equal(ca) && bytes.Equal(c.RawSubject, ca.RawSubject) {
			trusted = append(trusted, c)
		}
	}
	return pki.EncodeCertificates(trusted...), nil
}
