// Package kubeconfig generates the kubeconfig files of a control plane, or keeps the existing
// ones.
package kubeconfig

import (
	"context"
	"fmt"
	"slices"

	"kubeadm/internal/certstore"
	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// Phase generates the five files of a first control plane.
var Phase = engine.Phase{
	Name:  "kubeconfig",
	Short: "Generate the kubeconfig files for the administrator and the components",
	Long:  "Generate the kubeconfig files with which the administrator, the kubelet and the control plane components connect to the API server.",
	Run: func(_ context.Context, e *engine.Env) error {
		e.Say("using the kubeconfig directory %q", e.Local.Paths.Kubeconfigs)
		return nil
	},
	Phases: []engine.Phase{{Parallel: true, Phases: newPhases()}},
}

// Join generates the files of a joining control plane, without that of its kubelet, which the
// kubelet writes itself.
var Join = engine.Phase{
	Name:  "kubeconfig",
	Short: "Generate this control plane node's kubeconfig files",
	Long:  "Generate the kubeconfig files with which the administrator and the components of this control plane node connect to the API server.",
	Flags: flag.WithDiscovery(flag.CertificateKey, flag.Config, flag.ControlPlane, flag.DryRun),
	When:  node.IsControlPlane,
	Run: func(_ context.Context, e *engine.Env) error {
		e.Say("using the kubeconfig directory %q", e.Local.Paths.Kubeconfigs)
		return nil
	},
	Phases: []engine.Phase{{Parallel: true, Phases: newJoinPhases()}},
}

// newJoinPhases returns unnamed phases: in a join no file has a phase of its own.
func newJoinPhases() []engine.Phase {
	var all []engine.Phase
	for _, p := range pki.KubeconfigProfiles() {
		if p.OnJoin {
			created := phaseindex.JoinKubeconfigCreated(p.Name)
			all = append(all, engine.Phase{Points: []engine.Milestone{created},
				Run: func(ctx context.Context, e *engine.Env) error {
					if err := createKubeconfig(ctx, e, p); err != nil {
						return err
					}
					return e.Reach(ctx, created)
				}})
		}
	}
	return all
}

// commonFlags are the flags of the phase of each file.
var commonFlags = []flag.Name{flag.APIServerAdvertise, flag.APIServerBindPort, flag.CertDir,
	flag.Config, flag.ControlPlaneEndpoint, flag.DryRun, flag.KubeconfigDir, flag.KubernetesVersion,
	flag.NodeAddressFrom}

func newPhases() []engine.Phase {
	var all []engine.Phase
	for _, p := range pki.KubeconfigProfiles() {
		phase := engine.Phase{
			Name:  p.Name,
			Short: "Generate the kubeconfig file for " + p.Purpose,
			Flags: commonFlags,
			Run: func(ctx context.Context, e *engine.Env) error {
				return createKubeconfig(ctx, e, p)
			},
		}
		if p.PerNode {
			phase.Flags = slices.Concat(commonFlags, []flag.Name{flag.NodeName})
			phase.Long = "Generate the kubeconfig file with which this node's kubelet starts for the first " +
				"time. Use it only while the cluster is being created: later, kubelets request their client certificates with CSRs."
		}
		all = append(all, phase)
	}
	return all
}

// createKubeconfig generates a kubeconfig, or keeps the existing one.
func createKubeconfig(ctx context.Context, e *engine.Env, p pki.KubeconfigProfile) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	profile, _ := pki.ProfileOf(pki.ClusterCA)
	ca, err := certstore.ReadCA(ctx, e.World, n, profile)
	if err != nil {
		return err
	}
	path := n.Paths.Kubeconfig(p.File)
	old, err := state.ReadOptional(ctx, e.World, path)
	if err != nil {
		return err
	}
	if old != nil {
		f, owner := certstore.KubeconfigFile{Path: path, Data: old, Server: serverURL(n, p)}, ""
		if p.PerNode {
			owner = p.UserName(n.Name)
		}
		if p.PerNode && !ca.CanIssue() { // as "certs generate-csr" writes it
			f.Server = n.ServerURL()
		}
		return keepKubeconfig(ctx, e, f, owner)
	}
	if !ca.CanIssue() {
		return problem.New(
			fmt.Errorf("%s does not exist and the CA's key is not on this machine", path),
			"create "+p.File+" with a certificate of the external CA and copy it to "+
				n.Paths.Kubeconfigs)
	}
	trusted, err := certstore.ReadTrusted(ctx, e.World, n.Paths, ca.Certificate)
	if err != nil {
		return err
	}
	data, err := newKubeconfig(e, n, p, issuer{ca, trusted})
	if err != nil {
		return err
	}
	e.Say("writing the %q kubeconfig file", p.File)
	return e.Do(ctx, change.WriteFile{Path: path, Data: data, Mode: 0o600, Secret: true})
}

// serverURL returns the API server's URL in the file.
func serverURL(n *node.Node, p pki.KubeconfigProfile) string {
	if p.UsesLocalAPIServer {
		return n.LocalServerURL()
	}
	return n.ServerURL()
}

// issuer is the CA that signs the client certificate, and the CAs that verify the API server, PEM.
type issuer struct {
	pki.CA
	trusted []byte
}

func newKubeconfig(e *engine.Env, n *node.Node, p pki.KubeconfigProfile,
	ca issuer) ([]byte, error) {
	key, err := e.Keys(p.Need(n.IsJoining()))
	if err != nil {
		return nil, err
	}
	spec := p.Spec(n.Name, ca.Certificate, e.World.Now().UTC().Add(n.Cluster.CertValidity))
	cert, err := ca.Issue(e.Rand("kubeconfig/"+p.Name), spec, key.Public())
	if err != nil {
		return nil, err
	}
	secret, err := pki.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	access := pki.KubeconfigSpec{Server: serverURL(n, p), Cluster: n.Cluster.Name,
		User: p.UserName(n.Name), CA: ca.trusted}
	return access.WithCertificate(pki.EncodeCertificates(cert), secret).Encode()
}

// keepKubeconfig checks that the file is for this cluster. owner is the common name that its
// certificate should have, empty for any.
func keepKubeconfig(ctx context.Context, e *engine.Env, f certstore.KubeconfigFile,
	owner string) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	data, err := state.ReadRequired(ctx, e.World, n.Paths.Cert("ca"))
	if err != nil {
		return err
	}
	if f.CAs, err = pki.ParseCertificates(data); err != nil { // the CA may not be the only one
		return err
	}
	config, warnings, err := f.Check(ctx, e.World)
	for _, w := range warnings {
		e.Warn("%s: %s", f.Path, w)
	}
	if err != nil {
		return err
	}
	// A file that refers to its certificate, or has none, is the user's choice.
	if cert, unseen := config.ClientCertificate(); unseen == nil && owner != "" &&
		cert.Subject.CommonName != owner {
		e.Warn("%s is for %s, not for %s; to generate a new one, move it out of the way", f.Path,
			cert.Subject.CommonName, owner)
	}
	e.Say("using the existing kubeconfig file %q", f.Path)
	return nil
}
