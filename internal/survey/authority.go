package survey

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
)

// Authority is a CA that signs for this machine, or that what is here was signed by. It must be valid now. That it is not
// here is an error that names the remedy.
func Authority(ctx context.Context, r change.Reader, n *node.Node, p pki.Profile) (pki.CA, error) {
	found, err := Stored(ctx, r, n.Paths, p.Base)
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
	return CheckAuthority(n.Paths, p, found, r.Now())
}

// CheckAuthority reads a CA whose certificate is here. It must be that of a CA, valid at that time, and fit its key if
// that is here. Every phase that signs or verifies by a CA, and preflight, asks this.
func CheckAuthority(paths node.Paths, p pki.Profile, found pki.Stored, at time.Time) (pki.CA, error) {
	ca, err := sound(paths, p, found)
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

// sound is an authority whose certificate is that of one, and whose key, if it is here, belongs to it.
func sound(paths node.Paths, p pki.Profile, found pki.Stored) (pki.CA, error) {
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

// SignsElsewhere reports whether another program than kube-apiserver signs service account tokens (KEP-740).
func SignsElsewhere(n *node.Node) bool {
	endpoint, _ := node.LastArg(n.Cluster.APIServer.Args, "service-account-signing-endpoint")
	return endpoint != ""
}

// CheckServiceAccountKeys is an error if the files of the key pair of service accounts that are here are damaged or do not
// belong together. sa.pub alone is an error too, unless tokens are signed elsewhere: a new pair would replace it, and
// whatever the old key signed be refused.
func CheckServiceAccountKeys(ctx context.Context, r change.Reader, n *node.Node) error {
	keyFile, pubFile := n.Paths.Certificate(pki.ServiceAccountKey), n.Paths.Certificate(pki.ServiceAccountPublicKey)
	private, err := Optional(ctx, r, keyFile)
	if err != nil {
		return err
	}
	public, err := Optional(ctx, r, pubFile)
	switch {
	case err != nil || private == nil && public == nil:
		return err
	case private == nil && SignsElsewhere(n):
		return nil
	case private == nil:
		if external, err := ExternalCA(ctx, r, n.Paths); err != nil || external {
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
