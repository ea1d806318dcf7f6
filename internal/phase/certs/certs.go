// Package certs makes the certificates and keys of a control plane, or keeps those that are there.
package certs

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// Phase makes all of them. Trees of one CA and what it signs grow side by side.
var Phase = flow.Phase{
	Name:  "certs",
	Short: "Make the certificates",
	Long:  "Make the certificates and keys that the control plane's components show and trust, and keep those that are there.",
	Run: func(ctx context.Context, e *flow.Env) error {
		e.Say("using the certificate folder %q", e.Local.Paths.Certificates)
		return checkExisting(ctx, e)
	},
	Phases: []flow.Phase{{Parallel: true, Phases: []flow.Phase{
		newCAPhase(pki.ClusterCA), newCAPhase(pki.FrontProxyCA), newCAPhase(pki.EtcdCA), serviceAccountPhase,
	}}},
}

// Join makes what is this machine's own on one more control plane. What all of them share must be here.
var Join = flow.Phase{
	Name:  "certs",
	Short: "Make the certificates of this control plane",
	Long:  "Make the certificates that are this control plane's own, signed by the authorities that all control planes share.",
	Flags: flag.WithDiscovery(flag.APIServerAdvertise, flag.Config, flag.ControlPlane, flag.DryRun, flag.NodeName),
	When:  node.IsControlPlane,
	Run: func(ctx context.Context, e *flow.Env) error {
		n, err := e.Node(ctx)
		if err == nil {
			e.Say("using the certificate folder %q", n.Paths.Certificates)
		}
		return err
	},
	Phases: []flow.Phase{newJoinPhase()},
}

// checkExisting looks at the authorities and keys that are here before the first file is written.
func checkExisting(ctx context.Context, e *flow.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	local, _ := node.LocalEtcd(n)
	errs := []error{certstore.CheckServiceAccountKeys(ctx, e.World, n)}
	for _, p := range pki.Profiles() {
		if !p.IsCA() || p.LocalEtcdOnly() && !local {
			continue
		}
		found, err := certstore.ReadPair(ctx, e.World, n.Paths, p.Base)
		if err == nil && found.Certificate != nil {
			_, err = certstore.CheckCA(n.Paths, p, found, e.World.Now())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// newJoinPhase are the certificates that each control plane has for itself, made side by side.
func newJoinPhase() flow.Phase {
	all := flow.Phase{Parallel: true}
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			continue
		}
		part := newPhase(p, createCertificate)
		part.Name = ""
		all.Phases = append(all.Phases, part)
	}
	return all
}

// The flags of each phase below certs; the API server's certificate depends on more.
var (
	certFlags          = []flag.Name{flag.CertDir, flag.Config, flag.DryRun, flag.KubernetesVersion}
	apiServerCertFlags = []flag.Name{flag.APIServerAdvertise, flag.APIServerCertSANs, flag.CertDir, flag.Config,
		flag.ControlPlaneEndpoint, flag.DryRun, flag.KubernetesVersion, flag.ServiceCIDR, flag.ServiceDNSDomain}
)

// newCAPhase is a CA followed by everything it signs.
func newCAPhase(ca string) flow.Phase {
	var group flow.Phase
	leaves := flow.Phase{Parallel: true}
	for _, p := range pki.Profiles() {
		switch {
		case p.Name == ca:
			group.Phases = append(group.Phases, newPhase(p, createCA))
		case p.Issuer == ca:
			leaves.Phases = append(leaves.Phases, newPhase(p, createCertificate))
		}
	}
	group.Phases = append(group.Phases, leaves)
	return group
}

func newPhase(p pki.Profile, run func(context.Context, *flow.Env, pki.Profile) error) flow.Phase {
	phase := flow.Phase{
		Name:  p.Name,
		Short: "Make the certificate for " + p.For,
		Flags: certFlags,
		Run:   func(ctx context.Context, e *flow.Env) error { return run(ctx, e, p) },
	}
	if p.SANs == pki.APIServerSANs {
		phase.Flags = apiServerCertFlags
	}
	if p.LocalEtcdOnly() {
		phase.When = node.LocalEtcd
	}
	return phase
}

// createCA keeps the CA that is there, or makes one.
func createCA(ctx context.Context, e *flow.Env, p pki.Profile) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	found, err := certstore.ReadPair(ctx, e.World, n.Paths, p.Base)
	if err != nil {
		return err
	}
	if found.Certificate != nil {
		return keepCA(ctx, e, n, p)
	}
	key, err := newKey(e, n.Paths, p, found)
	if err != nil {
		return err
	}
	spec, _, err := p.Spec(n.Site(), pki.Lasting(e.World.Now(), n.Cluster.CAValidity))
	if err != nil {
		return err
	}
	ca, err := pki.NewCA(e.Rand("certs/"+p.Name), key, spec)
	if err != nil {
		return err
	}
	e.Say("generating the %q certificate and key", p.Base)
	return writeCertificate(ctx, e, p, ca.Certificate, key)
}

// createCertificate keeps the certificate that is there, or makes one signed by its CA.
func createCertificate(ctx context.Context, e *flow.Env, p pki.Profile) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	ca, err := readIssuer(ctx, e, n, p)
	if err != nil {
		return err
	}
	found, err := certstore.ReadPair(ctx, e.World, n.Paths, p.Base)
	if err != nil {
		return err
	}
	if found.Certificate != nil {
		return keepCertificate(ctx, e, p, found, ca)
	}
	if !ca.CanIssue() {
		return problem.New("", fmt.Errorf("%s does not exist and the key of its CA is not on this machine", n.Paths.Cert(p.Base)),
			"have the keeper of the CA sign it, then put "+p.CertificateFile()+" and "+p.KeyFile()+" into "+n.Paths.Certificates)
	}
	key, err := newKey(e, n.Paths, p, found)
	if err != nil {
		return err
	}
	spec, ignored, err := p.Spec(n.Site(), pki.Lasting(e.World.Now(), n.Cluster.CertValidity))
	if err != nil {
		return err
	}
	for _, name := range ignored {
		e.Warn("%q is neither an IP address nor a DNS name and is left out of the %s certificate", name, p.Name)
	}
	cert, err := ca.Issue(e.Rand("certs/"+p.Name), spec, key.Public())
	if err != nil {
		return err
	}
	e.Say("generating the %q certificate and key", p.Base)
	if p.SANs != pki.NoSANs {
		e.Say("the %s certificate is good for %s", p.Base, spec.SANs)
	}
	return writeCertificate(ctx, e, p, cert, key)
}

// readIssuer is the CA that signs the certificate.
func readIssuer(ctx context.Context, e *flow.Env, n *node.Node, p pki.Profile) (pki.CA, error) {
	parent, _ := pki.ProfileOf(p.Issuer)
	return certstore.ReadCA(ctx, e.World, n, parent)
}

// newKey makes a key. One without a certificate is used only if an unfinished run of this very command left it.
func newKey(e *flow.Env, paths node.Paths, p pki.Profile, found pki.Stored) (crypto.Signer, error) {
	if found.Key == nil {
		return e.Keys()
	}
	if !e.World.Made(change.FileTarget(paths.Key(p.Base))) {
		return nil, problem.New("", fmt.Errorf("%s exists without its certificate", paths.Key(p.Base)),
			"put the certificate back or move the key away")
	}
	return pki.ParseKey(found.Key)
}

// writeCertificate keeps the key before the certificate: a certificate without its key would pass for a kept-elsewhere one.
func writeCertificate(ctx context.Context, e *flow.Env, p pki.Profile, cert *x509.Certificate, key crypto.Signer) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	paths := n.Paths
	text, err := pki.EncodeKey(key)
	if err != nil {
		return err
	}
	return e.Do(ctx,
		change.WriteFile{Path: paths.Key(p.Base), Data: text, Mode: 0o600, Secret: true},
		change.WriteFile{Path: paths.Cert(p.Base), Data: pki.EncodeCertificates(cert), Mode: 0o644})
}
