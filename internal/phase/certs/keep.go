package certs

import (
	"context"
	"fmt"
	"strings"

	"kubeadm/internal/certstore"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

func keepCA(ctx context.Context, e *flow.Env, n *node.Node, p pki.Profile) error {
	ca, err := certstore.ReadCA(ctx, e.World, n, p)
	if err != nil {
		return err
	}
	if !ca.CanIssue() {
		e.Say("using the existing %q certificate; its key is kept elsewhere", p.Base)
		return nil
	}
	e.Say("using the existing %q certificate authority", p.Base)
	return nil
}

// keepCertificate leaves a certificate alone that its CA has signed and that has not ended. On a machine that joins it must
// also have its key and be good for all names; the first control plane is only warned.
func keepCertificate(ctx context.Context, e *flow.Env, p pki.Profile, found pki.Stored, ca pki.CA) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	path := n.Paths.Cert(p.Base)
	cert, err := found.Leaf(ca.Certificate, e.World.Now())
	if err != nil {
		return unusableError(path, err, renewalHints(e, p, found, ca)...)
	}
	if _, err := found.Pair(ca.Certificate, e.World.Now()); err != nil {
		if n.Joins() {
			return unusableError(path, err)
		}
		e.Warn("%s: %v", path, err)
	}
	spec, _, err := p.Spec(n.Site(), pki.Lasting(e.World.Now(), n.Cluster.CertValidity))
	if err != nil {
		return err
	}
	if missing := spec.SANs.NotCovered(cert); len(missing) > 0 {
		if n.Joins() && ca.CanIssue() {
			return unusableError(path, fmt.Errorf("it is not good for %s", strings.Join(missing, ", ")))
		}
		e.Warn("the existing %q certificate is not good for %s; to have a new one made, move %s and its key away", p.Base, strings.Join(missing, ", "), path)
	}
	e.Say("using the existing %q certificate and key", p.Base)
	return nil
}

// renewalHints is how to go on with a certificate that was good until it ended.
func renewalHints(e *flow.Env, p pki.Profile, found pki.Stored, ca pki.CA) []string {
	certs, err := pki.ParseCertificates(found.Certificate)
	if err != nil || !ca.CanIssue() || pki.CheckPeriod(certs[0], e.World.Now()) == nil {
		return nil
	}
	return []string{"if it was good so far: kubeadm certs renew " + p.Name}
}

func unusableError(path string, err error, more ...string) error {
	return problem.New("using the existing "+path, err, append(more, "fix the file, or move it away to have a new one made")...)
}
