package certs

import (
	"context"
	"fmt"
	"strings"

	"kubeadm/internal/engine"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// keepCertificate keeps an existing certificate if its CA signed it and it has not expired. On a
// machine that joins it must also have its key and all SANs; on the first control plane that is a
// warning.
func keepCertificate(ctx context.Context, e *engine.Env, p pki.Profile, found pki.StoredPair,
	ca pki.CA) error {
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	path := n.Paths.Cert(p.Base)
	cert, err := found.VerifyLeaf(ca.Certificate, e.World.Now())
	if err != nil {
		return unusableError(path, err, renewalHints(e, p, found, ca)...)
	}
	if _, err := found.VerifyPair(ca.Certificate, e.World.Now()); err != nil {
		if n.IsJoining() {
			return unusableError(path, err)
		}
		e.Warn("%s: %v", path, err)
	}
	spec, _, err := p.Spec(n.CertificateNames(), pki.NewValidity(e.World.Now(), n.Cluster.CertValidity))
	if err != nil {
		return err
	}
	if missing := spec.SANs.MissingFrom(cert); len(missing) > 0 {
		if n.IsJoining() && ca.CanIssue() {
			return unusableError(path,
				fmt.Errorf("it is not valid for %s", strings.Join(missing, ", ")))
		}
		e.Warn("the existing %q certificate is not valid for %s; to generate a new one, move %s and its key away",
			p.Base, strings.Join(missing, ", "), path)
	}
	e.Say("using the existing %q certificate and key", p.Base)
	return nil
}

// renewalHints says how to renew a certificate that has expired.
func renewalHints(e *engine.Env, p pki.Profile, found pki.StoredPair, ca pki.CA) []string {
	certs, err := pki.ParseCertificates(found.Certificate)
	if err != nil || !ca.CanIssue() || pki.CheckPeriod(certs[0], e.World.Now()) == nil {
		return nil
	}
	return []string{"to renew it: kubeadm certs renew " + p.Name}
}

func unusableError(path string, err error, more ...string) error {
	return problem.During("using the existing "+path, err,
		append(more, "fix the file, or move it out of the way so that kubeadm generates a new one")...)
}
