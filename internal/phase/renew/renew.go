// Package renew replaces certificates of a control plane by new ones that say the same and last anew.
package renew

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// Name is the name of the phase.
const Name = "renew"

// Phase renews them one by one, in the order of their names: whether they are about to end or not.
var Phase = flow.Phase{
	Name:   Name,
	Short:  "Renew the certificates",
	Phases: newPhases(),
}

func newPhases() []flow.Phase {
	var phases []flow.Phase
	for _, c := range pki.Renewables() {
		phases = append(phases, flow.Phase{
			Name:  c.Name,
			Short: "Renew the certificate for " + c.For,
			Run:   func(ctx context.Context, e *flow.Env) error { return renewCertificate(ctx, e, c) },
		})
	}
	return phases
}

// Address is the phase that renews the certificate of that name.
func Address(name string) string { return Name + "/" + name }

func renewCertificate(ctx context.Context, e *flow.Env, c pki.Renewable) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	if local, why := node.LocalEtcd(n); c.LocalEtcdOnly() && !local {
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
	if !ca.CanIssue() {
		e.Say("%s is left as it is: the key of its CA is kept elsewhere, and so is who renews it", c.Name)
		return nil
	}
	if err := replaceCertificate(ctx, e, renewal{c, n.Paths, old, ca}); err != nil {
		return err
	}
	e.Say("%s is renewed: the certificate for %s", c.Name, c.For)
	return nil
}

// readIssuer is who signs the certificate.
func readIssuer(ctx context.Context, e *flow.Env, n *node.Node, c pki.Renewable) (pki.CA, error) {
	profile, _ := pki.ProfileOf(c.Issuer)
	if _, err := certstore.IsExternalCA(ctx, e.World, n.Paths, profile); err != nil {
		return pki.CA{}, err
	}
	return certstore.ReadCA(ctx, e.World, n, profile)
}

// renewal is what is asked of an authority: a certificate in place of an old one.
type renewal struct {
	pki.Renewable
	paths node.Paths
	old   *x509.Certificate
	by    pki.CA
}

// replaceCertificate makes key and certificate anew. Once it begins to write, no interruption comes between the two.
func replaceCertificate(ctx context.Context, e *flow.Env, r renewal) error {
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
	cert, err := r.by.Issue(e.Rand("renew/"+r.Name), pki.SpecOf(r.old, pki.Lasting(e.World.Now(), n.Cluster.CertValidity)), key.Public())
	if err != nil {
		return err
	}
	files, err := r.newFiles(ctx, e, text, cert)
	if err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return fmt.Errorf("stopped before %s was renewed: %w", r.Name, err)
	}
	return e.Do(context.WithoutCancel(ctx), files...)
}

// newKey is of the kind that the cluster wants, or of the old one's where nobody says what the cluster wants.
func newKey(e *flow.Env, n *node.Node, old crypto.PublicKey) (crypto.Signer, error) {
	kind, known := pki.AlgorithmOf(old)
	if n.Cluster.Algorithm != "" || !known {
		return e.Keys()
	}
	return pki.NewKey(e.Rand("renew/key"), kind)
}

// newFiles are what is written: the key first, so that a certificate that is new always has its key.
func (r renewal) newFiles(ctx context.Context, e *flow.Env, key []byte, cert *x509.Certificate) ([]change.Change, error) {
	if r.File == "" {
		return []change.Change{
			change.WriteFile{Path: r.paths.Key(r.Base), Data: key, Mode: 0o600, Secret: true},
			change.WriteFile{Path: r.paths.Cert(r.Base), Data: pki.EncodeCertificates(cert), Mode: 0o644},
		}, nil
	}
	path := r.paths.Kubeconfig(r.File)
	data, err := e.World.ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	config, err := pki.ParseKubeconfig(data)
	if err == nil {
		err = config.Renew(pki.EncodeCertificates(r.by.Certificate), pki.EncodeCertificates(cert), key)
	}
	if err != nil {
		return nil, problem.New("renewing the certificate in "+path, err, "move the file away and have a new one made: kubeadm init phase kubeconfig")
	}
	made, err := config.Encode()
	return []change.Change{change.WriteFile{Path: path, Data: made, Mode: 0o600, Secret: true}}, err
}
