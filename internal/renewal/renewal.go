// Package renewal replaces certificates of a control plane by new ones with the same subject, and the
// same SANs unless the user wants others.
package renewal

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// Renew replaces a certificate of this control plane, whether it is about to expire or not. One that
// is missing, or whose CA's key is not on this machine, is reported and left alone. With
// Paths.Requests, one of an external CA is replaced by what that CA has signed.
func Renew(ctx context.Context, e *engine.Env, c pki.Renewable) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	if local, why := node.HasLocalEtcd(n); c.LocalEtcdOnly() && !local {
		e.Say("MISSING! %s: %s", c.Name, why)
		return nil
	}
	old, err := certstore.ReadRenewable(ctx, e.World, n.Paths, c)
	if err != nil {
		return err
	}
	if old == nil {
		e.Say("MISSING! %s: %s does not exist", c.Name, certstore.RenewablePath(n.Paths, c))
		return nil
	}
	ca, err := readIssuer(ctx, e, n, c)
	if err != nil {
		return err
	}
	r := renewal{Renewable: c, paths: n.Paths, old: old, ca: ca}
	if !ca.CanIssue() && n.Paths.Requests != "" {
		return r.install(ctx, e)
	}
	if !ca.CanIssue() {
		e.Say("%s was not renewed: its CA's key is not on this machine (external CA)", c.Name)
		return nil
	}
	e.Say("renewing %s, %s", c.Name, c.Purpose)
	return replaceCertificate(ctx, e, r)
}

// Reissue replaces a serving certificate of this control plane by one with other SANs.
func Reissue(ctx context.Context, e *engine.Env, c pki.Renewable, sans pki.SANs) error {
	return ReissueFor(ctx, e, c, "", sans)
}

// ReissueFor is Reissue with another common name, which stays if it is empty.
func ReissueFor(ctx context.Context, e *engine.Env, c pki.Renewable, commonName string, sans pki.SANs) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	old, err := certstore.ReadRenewable(ctx, e.World, n.Paths, c)
	if err == nil && old == nil {
		err = fmt.Errorf("%s does not exist", certstore.RenewablePath(n.Paths, c))
	}
	if err != nil {
		return err
	}
	ca, err := readIssuer(ctx, e, n, c)
	if err != nil {
		return err
	}
	if !ca.CanIssue() {
		return NewForeignCAError(n.Paths, c, sans)
	}
	e.Say("issuing %s again, for %s", c.Purpose, sans)
	return replaceCertificate(ctx, e, renewal{Renewable: c, paths: n.Paths, old: old, ca: ca, sans: &sans,
		commonName: commonName})
}

// NewForeignCAError is the error of a certificate that needs other SANs, but whose CA has no key on this
// machine.
func NewForeignCAError(p node.Paths, c pki.Renewable, sans pki.SANs) error {
	return problem.New(fmt.Errorf("%s needs other SANs, but the key of its CA is not on this machine "+
		"(external CA)", p.Cert(c.Base)),
		fmt.Sprintf("have the external CA sign one for %s, install it, and run the command again", sans))
}

// Check is an error if Renew would fail because of the files on this machine. Nothing is changed.
func Check(ctx context.Context, e *engine.Env, c pki.Renewable) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	if local, _ := node.HasLocalEtcd(n); c.LocalEtcdOnly() && !local {
		return nil
	}
	old, err := certstore.ReadRenewable(ctx, e.World, n.Paths, c)
	if old == nil || err != nil {
		return err
	}
	_, err = readIssuer(ctx, e, n, c)
	return err
}

// Repair renews each certificate whose private key belongs to another one, as a power cut between
// the writing of the two files leaves them: a component that reads them does not start. Then it
// restarts the kubelet, which otherwise starts such a component again only after minutes. Where
// everything fits, it changes nothing. Of the node only Local is needed; Keys are needed for a
// certificate whose algorithm kubeadm does not generate.
func Repair(ctx context.Context, e *engine.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	var repaired []string
	for _, c := range pki.Renewables() {
		err := certstore.CheckRenewableKey(ctx, e.World, n.Paths, c)
		if !errors.Is(err, certstore.ErrKeyMismatch) {
			continue // others report what cannot be read
		}
		e.Warn("%v, as happens after an interrupted renewal", err)
		if err = Renew(ctx, e, c); err == nil {
			err = certstore.CheckRenewableKey(ctx, e.World, n.Paths, c)
		}
		if err != nil { // no component may read the file, as etcd's where etcd is external
			e.Warn("it was not renewed: %v; to renew it: kubeadm certs renew %s", err, c.Name)
			continue
		}
		repaired = append(repaired, n.Paths.Key(c.Base))
	}
	if len(repaired) == 0 {
		return nil
	}
	kubelet, err := e.World.Service(ctx, "kubelet")
	if err != nil || !kubelet.Active {
		return nil // the user runs it by other means
	}
	return e.Do(ctx, change.SetService{Name: "kubelet", Active: true, Reads: repaired})
}

// readIssuer returns the CA that signs the certificate. What an external CA has signed may be
// incomplete while it is replaced from Paths.Requests, as a run that was killed between a key and its
// certificate leaves it: readAnswer checks what is installed instead.
func readIssuer(ctx context.Context, e *engine.Env, n *node.Node, c pki.Renewable) (pki.CA, error) {
	profile, _ := pki.ProfileOf(c.Issuer)
	external, err := certstore.IsExternalCA(ctx, e.World, n.Paths, profile)
	if err != nil && (!external || n.Paths.Requests == "") {
		return pki.CA{}, err
	}
	return certstore.ReadCA(ctx, e.World, n, profile)
}

// renewal is the replacement of a certificate.
type renewal struct {
	pki.Renewable
	paths node.Paths
	old   *x509.Certificate
	ca    pki.CA
	sans  *pki.SANs // of the new certificate; nil for those of the old one
	// commonName is that of the new certificate; empty for that of the old one
	commonName string
}

// replaceCertificate generates a new key and certificate; where the cluster's settings are not
// known, it takes over algorithm and validity of the old ones.
func replaceCertificate(ctx context.Context, e *engine.Env, r renewal) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	key, err := newKey(e, n, r.old.PublicKey)
	if err != nil {
		return err
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		return err
	}
	valid := cmp.Or(n.Cluster.CertValidity, r.old.NotAfter.Sub(r.old.NotBefore))
	spec := pki.RenewalSpec(r.old, pki.NewValidity(e.World.Now(), valid))
	if r.sans != nil {
		spec.SANs = *r.sans
	}
	spec.CommonName = cmp.Or(r.commonName, spec.CommonName)
	cert, err := r.ca.Issue(e.Rand("renew/"+r.Name), spec, key.Public())
	if err != nil {
		return err
	}
	files, err := r.newFiles(ctx, e, text, pki.EncodeCertificates(cert))
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("stopped before %s was renewed: %w", r.Name, err)
	}
	return e.Do(ctx, files)
}

// newKey generates a key with the cluster's algorithm, or with that of the old key if the
// cluster's is not known.
func newKey(e *engine.Env, n *node.Node, old crypto.PublicKey) (crypto.Signer, error) {
	algorithm, ok := pki.AlgorithmOf(old)
	if n.Cluster.Algorithm != "" || !ok {
		return e.Keys(pki.First)
	}
	return pki.NewKey(e.Rand("renew/key"), algorithm)
}

// newFiles returns what to write: a key and its certificate, or a kubeconfig with both.
func (r renewal) newFiles(ctx context.Context, e *engine.Env, key []byte,
	cert []byte) (change.Change, error) {
	if r.File == "" {
		return change.WriteKeyPair{
			Key:  change.WriteFile{Path: r.paths.Key(r.Base), Data: key, Mode: 0o600, Secret: true},
			Cert: change.WriteFile{Path: r.paths.Cert(r.Base), Data: cert, Mode: 0o644},
		}, nil
	}
	path := r.paths.Kubeconfig(r.File)
	data, err := e.World.ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	config, err := pki.ParseKubeconfig(data)
	if err == nil {
		err = r.renewKubeconfig(ctx, e, config, cert, key)
	}
	if err != nil {
		return nil, problem.During("renewing the certificate in "+path, err,
			"move the file out of the way and generate a new one: kubeadm init phase kubeconfig "+
				strings.TrimSuffix(r.File, ".conf"))
	}
	renewed, err := config.Encode()
	return change.WriteFile{Path: path, Data: renewed, Mode: 0o600, Secret: true}, err
}

// renewKubeconfig embeds the new certificate and its CA. While CAs are being replaced, ca.crt has two
// that have to be trusted.
func (r renewal) renewKubeconfig(ctx context.Context, e *engine.Env, config *pki.Kubeconfig,
	cert, key []byte) error {
	bundle, err := certstore.ReadTrusted(ctx, e.World, r.paths, r.ca.Certificate)
	if err != nil {
		return err
	}
	return config.Renew(bundle, cert, key)
}
