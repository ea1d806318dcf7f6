package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"kubeadm/internal/certstore"
	"kubeadm/internal/certuse"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
)

// How long before it expires a certificate is to be renewed, and a CA to be replaced. Of a short
// lifetime a fifth is left then.
const (
	renewBefore   = 30 * 24 * time.Hour
	replaceBefore = 90 * 24 * time.Hour
)

// expiresSoon reports whether less than limit, and less than a fifth of its lifetime, is left of a
// certificate.
func expiresSoon(cert *x509.Certificate, limit time.Duration, now time.Time) bool {
	left := cert.NotAfter.Sub(now)
	return left < limit && left < cert.NotAfter.Sub(cert.NotBefore)/5
}

// readCAs reads all certificates of a CA's file: two during a rotation of the CA.
func readCAs(ctx context.Context, r state.Reader, file string) ([]*x509.Certificate, error) {
	data, err := state.ReadRequired(ctx, r, file)
	if err != nil {
		return nil, err
	}
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return certs, nil
}

// checkCertificates checks the certificates on disk: CAs, and those that the CAs have signed. What is
// wrong with one in a kubeconfig, check Kubeconfigs reports.
func checkCertificates(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	local := m.hasEtcd
	for _, p := range pki.Profiles() {
		if p.IsCA() && (local || !p.LocalEtcdOnly()) {
			checkCA(ctx, r, rep, m.Paths, p)
		}
	}
	for _, c := range pki.Renewables() {
		if c.LocalEtcdOnly() && !local {
			continue
		}
		cert, err := certstore.ReadRenewable(ctx, r, m.Paths, c)
		if c.File == "" {
			switch {
			case err != nil:
				addError(rep, replaceUnreadable(ctx, r, m, c), err)
			case cert == nil:
				f := preflight.Finding{}
				f.Remedy, f.Command = regenerate(ctx, r, m, c)
				addError(rep, f, fmt.Errorf("%s does not exist", certstore.RenewablePath(m.Paths, c)))
			default:
				if err = checkCertificate(ctx, r, m, c, cert); err != nil {
					addError(rep, replaceInvalid(ctx, r, m, c, err), err)
				}
			}
			if err != nil {
				continue
			}
		}
		if err == nil && cert != nil && pki.CheckPeriod(cert, r.Now()) == nil &&
			expiresSoon(cert, renewBefore, r.Now()) {
			rep.Add(preflight.Finding{Severity: preflight.Warning,
				Text: fmt.Sprintf("%s expires on %s", certstore.RenewablePath(m.Paths, c),
					cert.NotAfter.UTC().Format(time.RFC3339)),
				Remedy: "renew it", Command: "kubeadm certs renew " + c.Name + " --restart"})
		}
	}
}

// regenerate says how to generate a certificate and its key by the configuration of the cluster. A
// phase of init keeps a pair that exists, and refuses a half of one.
func regenerate(ctx context.Context, r state.Reader, m *machine, c pki.Renewable) (remedy, command string) {
	inTheWay := slices.DeleteFunc([]string{m.Paths.Cert(c.Base), m.Paths.Key(c.Base)},
		func(file string) bool { return !exists(ctx, r, file) })
	return generateFile(m, "certs "+c.Name, inTheWay...)
}

// replaceUnreadable is the finding about a certificate's file that cannot be read, or whose content is no
// certificate.
func replaceUnreadable(ctx context.Context, r state.Reader, m *machine,
	c pki.Renewable) (f preflight.Finding) {
	if _, err := r.ReadFile(ctx, certstore.RenewablePath(m.Paths, c)); err != nil {
		f.Remedy = "make the file readable: check its type and the file system"
		return f
	}
	f.Remedy, f.Command = regenerate(ctx, r, m, c)
	f.Remedy = "restore a good copy of the file, or " + f.Remedy
	return f
}

// errOtherName says that a certificate is not valid for a name under which clients reach its server.
var errOtherName = errors.New("is not valid for")

// replaceInvalid is the finding about a certificate with which something is wrong. A renewal keeps the
// names of the old certificate.
func replaceInvalid(ctx context.Context, r state.Reader, m *machine, c pki.Renewable,
	err error) (f preflight.Finding) {
	if !errors.Is(err, errOtherName) {
		f.Command = "kubeadm certs renew " + c.Name + " --restart"
		f.Remedy = "renew it: " + f.Command
		return f
	}
	field := map[string]string{"apiserver": "apiServer.certSANs",
		pki.EtcdServer: "etcd.local.serverCertSANs", pki.EtcdPeer: "etcd.local.peerCertSANs"}[c.Name]
	remedy, command := regenerate(ctx, r, m, c)
	f.Remedy = fmt.Sprintf("add the name to %s of the stored configuration, unless it is the address of this node: "+
		"kubectl -n kube-system edit configmap kubeadm-config; %s", field, remedy)
	if command != "" {
		f.Remedy += ": " + command
	}
	return f
}

func checkCA(ctx context.Context, r state.Reader, rep *preflight.Report, paths node.Paths,
	p pki.Profile) {
	found, err := certstore.ReadPair(ctx, r, paths, p.Base)
	if err != nil {
		addError(rep, preflight.Finding{}, err)
		return
	}
	if found.Certificate == nil {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:   fmt.Sprintf("%s does not exist", paths.Cert(p.Base)),
			Remedy: "restore it from a backup, or copy it from another control plane node"})
		return
	}
	ca, err := certstore.CheckCA(paths, p, found, r.Now())
	if err != nil {
		addError(rep, preflight.Finding{}, err)
		return
	}
	if expiresSoon(ca.Certificate, replaceBefore, r.Now()) {
		rep.Add(preflight.Finding{Severity: preflight.Warning,
			Text: fmt.Sprintf("the certificate authority %s expires on %s", paths.Cert(p.Base),
				ca.Certificate.NotAfter.UTC().Format(time.RFC3339)),
			Remedy: "replace the CAs of the cluster in stages, on every node: kubeadm certs rotate-ca --help"})
	}
}

// checkCertificate returns an error if the certificate is not valid now, not signed by its CA, does
// not match its key, or lacks a name under which clients reach its server.
func checkCertificate(ctx context.Context, r state.Reader, m *machine, c pki.Renewable,
	cert *x509.Certificate) error {
	file := certstore.RenewablePath(m.Paths, c)
	if err := pki.CheckPeriod(cert, r.Now()); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := certstore.CheckRenewableKey(ctx, r, m.Paths, c); err != nil {
		return err
	}
	issuer, _ := pki.ProfileOf(c.Issuer)
	cas, err := readCAs(ctx, r, m.Paths.Cert(issuer.Base))
	if err != nil {
		return nil // checkCA reports it
	}
	for _, ca := range cas {
		if err = pki.VerifyChain([]*x509.Certificate{cert}, ca,
			pki.LatestNotBefore(cert, ca)); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var names []string
	switch c.Name {
	case "apiserver":
		names = []string{m.Address}
		for _, own := range []string{m.Paths.Kubeconfig("admin.conf"),
			m.Paths.KubeletKubeconfig()} {
			if endpoint, err := endpointOf(ctx, r, own); err == nil {
				host, _, _ := net.SplitHostPort(endpoint)
				names = append(names, host)
			}
		}
	case pki.EtcdServer, pki.EtcdPeer:
		names = []string{m.Address}
	}
	for _, name := range names {
		if name != "" && cert.VerifyHostname(name) != nil {
			return fmt.Errorf("%s %w %s, under which clients reach its server", file, errOtherName, name)
		}
	}
	return nil
}

// checkServed finds components that use another certificate than that on disk.
func checkServed(ctx context.Context, r state.Reader, rep *preflight.Report, m *machine) {
	if m.NoSocket != nil {
		rep.Skip("the container runtime is unknown: see check CRI")
		return
	}
	uses, err := certuse.ListInUse(ctx, m.env, m.asNode())
	if err != nil {
		rep.Skip("%v", err)
	}
	_, noRuntime := m.runtime(ctx, r)
	for _, u := range uses {
		if u.Stale == nil || u.NotRunning { // check StaticPods reports one that does not run
			continue
		}
		if u.Address == "" && noRuntime != nil { // only its container says since when it runs
			rep.Skip("%s: the container runtime is not responding: see check CRI", u.Component)
			continue
		}
		where := ""
		if u.Address != "" {
			where = " at " + u.Address
		}
		if u.Unknown {
			rep.Skip("%s%s: %v", u.Component, where, u.Stale)
			continue
		}
		rep.Add(preflight.Finding{Severity: preflight.Warning,
			Text:     fmt.Sprintf("%s does not use the certificate in %s%s", u.Component, u.File, where),
			Evidence: u.Stale.Error(),
			Remedy:   "restart the components that use an old certificate",
			Command:  "kubeadm certs renew all --restart"})
	}
}

func checkServiceAccountKeys(ctx context.Context, r state.Reader, rep *preflight.Report,
	n *node.Node) {
	if err := certstore.CheckServiceAccountKeys(ctx, r, n); err != nil {
		addError(rep, preflight.Finding{}, err)
	}
}
