// Package certs generates the certificates and keys of a control plane, or keeps the existing
// ones.
package certs

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// Phase generates all of them, in parallel for each CA.
var Phase = engine.Phase{
	Name:  "certs",
	Short: "Generate the certificates",
	Long:  "Generate the certificates and keys of the control plane components. Existing ones are kept.",
	Run: func(ctx context.Context, e *engine.Env) error {
		e.Say("using the certificate directory %q", e.Local.Paths.Certificates)
		return checkExisting(ctx, e)
	},
	Phases: []engine.Phase{{Parallel: true, Phases: []engine.Phase{
		newCAPhase(pki.ClusterCA), newCAPhase(pki.FrontProxyCA), newCAPhase(pki.EtcdCA),
		serviceAccountPhase,
	}}},
}

// Join generates the certificates of a joining control plane. Those that all control planes share
// must exist.
var Join = engine.Phase{
	Name:  "certs",
	Short: "Generate this control plane node's certificates",
	Long:  "Generate this control plane node's certificates, signed by the CAs that all control plane nodes share.",
	Flags: flag.WithDiscovery(flag.APIServerAdvertise, flag.Config, flag.ControlPlane, flag.DryRun,
		flag.NodeAddressFrom, flag.NodeName),
	When: node.IsControlPlane,
	Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err == nil {
			e.Say("using the certificate directory %q", n.Paths.Certificates)
		}
		return err
	},
	Phases: []engine.Phase{newJoinPhase()},
}

// checkExisting checks the existing CAs and service account keys before the first file is written.
func checkExisting(ctx context.Context, e *engine.Env) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	local, _ := node.HasLocalEtcd(n)
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

// newJoinPhase returns the phase that generates the certificates of a single control plane, in
// parallel.
func newJoinPhase() engine.Phase {
	all := engine.Phase{Parallel: true}
	for _, p := range pki.Profiles() {
		if p.IsCA() {
			continue
		}
		part := newPhase(p, createJoinCertificate)
		part.Name, part.Points = "", []engine.Milestone{phaseindex.JoinCertCreated(p.Name)}
		all.Phases = append(all.Phases, part)
	}
	return all
}

// The flags of each phase below certs; the API server's certificate depends on more.
var (
	certFlags          = []flag.Name{flag.CertDir, flag.Config, flag.DryRun, flag.KubernetesVersion}
	apiServerCertFlags = []flag.Name{flag.APIServerAdvertise, flag.APIServerCertSANs, flag.CertDir,
		flag.Config,
		flag.ControlPlaneEndpoint, flag.DryRun, flag.KubernetesVersion, flag.NodeAddressFrom, flag.ServiceCIDR,
		flag.ServiceDNSDomain}
)

// newCAPhase returns the phases that generate a CA, and then all certificates that it signs.
func newCAPhase(ca string) engine.Phase {
	var group engine.Phase
	leaves := engine.Phase{Parallel: true}
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

func newPhase(p pki.Profile,
	run func(context.Context, *engine.Env, pki.Profile) error) engine.Phase {
	phase := engine.Phase{
		Name:  p.Name,
		Short: "Generate " + p.Purpose,
		Flags: certFlags,
		Run:   func(ctx context.Context, e *engine.Env) error { return run(ctx, e, p) },

		UsesAddress: p.SANs != pki.NoSANs,
	}
	if p.SANs == pki.APIServerSANs {
		phase.Flags = apiServerCertFlags
	}
	if p.LocalEtcdOnly() {
		phase.When = node.HasLocalEtcd
	}
	return phase
}

// createCA generates a CA, or keeps the existing one.
func createCA(ctx context.Context, e *engine.Env, p pki.Profile) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	found, err := certstore.ReadPair(ctx, e.World, n.Paths, p.Base)
	if err != nil {
		return err
	}
	if found.Certificate != nil {
		ca, err := certstore.ReadCA(ctx, e.World, n, p)
		if err != nil {
			return err
		}
		if ca.CanIssue() {
			e.Say("using the existing %q certificate authority", p.Base)
		} else {
			e.Say("using the existing %q certificate; its key is not on this machine (external CA)",
				p.Base)
		}
		return nil
	}
	key, err := newKey(e, n, p, found)
	if err != nil {
		return err
	}
	spec, _, err := p.Spec(n.CertificateNames(), pki.NewValidity(e.World.Now(), n.Cluster.CAValidity))
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

// createCertificate generates a certificate signed by its CA, or keeps the existing one.
func createCertificate(ctx context.Context, e *engine.Env, p pki.Profile) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	issuer, _ := pki.ProfileOf(p.Issuer)
	ca, err := certstore.ReadCA(ctx, e.World, n, issuer)
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
		return problem.New(
			fmt.Errorf("%s does not exist, and the key of its CA is not on this machine",
				n.Paths.Cert(p.Base)),
			"sign it with the external CA, then copy "+p.CertificateFile()+" and "+p.KeyFile()+
				" to "+n.Paths.Certificates)
	}
	key, err := newKey(e, n, p, found)
	if err != nil {
		return err
	}
	spec, ignored, err := p.Spec(n.CertificateNames(), pki.NewValidity(e.World.Now(), n.Cluster.CertValidity))
	if err != nil {
		return err
	}
	for _, name := range ignored {
		e.Warn("%q is neither an IP address nor a DNS name and is left out of the %s certificate",
			name, p.Name)
	}
	cert, err := ca.Issue(e.Rand("certs/"+p.Name), spec, key.Public())
	if err != nil {
		return err
	}
	e.Say("generating the %q certificate and key", p.Base)
	if p.SANs != pki.NoSANs {
		e.Say("the %s certificate is valid for %s", p.Base, spec.SANs)
	}
	return writeCertificate(ctx, e, p, cert, key)
}

// createJoinCertificate does that in a join, where the certificate has no phase of its own.
func createJoinCertificate(ctx context.Context, e *engine.Env, p pki.Profile) error {
	if err := createCertificate(ctx, e, p); err != nil {
		return err
	}
	return e.Reach(ctx, phaseindex.JoinCertCreated(p.Name))
}

// newKey generates a key. It uses an existing key without a certificate if an unfinished run of
// the same command wrote it.
func newKey(e *engine.Env, n *node.Node, p pki.Profile,
	found pki.StoredPair) (crypto.Signer, error) {
	if found.Key == nil {
		return e.Keys(p.Need(n.IsJoining()))
	}
	if !e.World.WasCreated(change.FileTarget(n.Paths.Key(p.Base))) {
		return nil, problem.New(
			fmt.Errorf("%s exists without its certificate", n.Paths.Key(p.Base)),
			"restore the certificate, or move the key out of the way")
	}
	return pki.ParseKey(found.Key)
}

// writeCertificate writes the key before the certificate: a CA certificate without its key would
// be an external CA.
func writeCertificate(ctx context.Context, e *engine.Env, p pki.Profile, cert *x509.Certificate,
	key crypto.Signer) error {
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
