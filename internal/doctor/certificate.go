package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"kubeadm/internal/certstore"
	"kubeadm/internal/certuse"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
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
func (m *machine) readCAs(ctx context.Context, r state.Reader, base string) ([]*x509.Certificate, error) {
	data, err := state.ReadRequired(ctx, r, m.local.Paths.Cert(base))
	if err != nil {
		return nil, err
	}
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.local.Paths.Cert(base), err)
	}
	return certs, nil
}

// checkCertificates checks the certificates on disk: CAs, and those that the CAs have signed. What is
// wrong with one in a kubeconfig, check Kubeconfigs reports.
func (m *machine) checkCertificates(ctx context.Context, r state.Reader, rep *preflight.Report) {
	local := m.hasLocalEtcd(ctx)
	for _, p := range pki.Profiles() {
		if p.IsCA() && (local || !p.LocalEtcdOnly()) {
			m.checkCA(ctx, r, rep, p)
		}
	}
	for _, c := range pki.Renewables() {
		if c.LocalEtcdOnly() && !local {
			continue
		}
		cert, err := certstore.ReadRenewable(ctx, r, m.local.Paths, c)
		if c.File == "" {
			switch {
			case err != nil:
				addError(rep, m.replaceUnreadable(ctx, r, c), err)
			case cert == nil:
				f := preflight.Finding{}
				f.Remedy, f.Command = m.regenerate(ctx, c)
				addError(rep, f, fmt.Errorf("%s does not exist", certstore.RenewablePath(m.local.Paths, c)))
			default:
				if err = m.checkCertificate(ctx, r, c, cert); err != nil {
					addError(rep, m.replaceInvalid(ctx, c, err), err)
				}
			}
			if err != nil {
				continue
			}
		}
		if err == nil && cert != nil && pki.CheckPeriod(cert, r.Now()) == nil &&
			expiresSoon(cert, renewBefore, r.Now()) {
			rep.Add(preflight.Finding{Severity: preflight.Warning,
				Text: fmt.Sprintf("%s expires on %s", certstore.RenewablePath(m.local.Paths, c),
					cert.NotAfter.UTC().Format(time.RFC3339)),
				Remedy: "renew it", Command: "kubeadm certs renew " + c.Name + " --restart"})
		}
	}
}

// regenerate says how to generate a certificate and its key by the configuration of the cluster. A
// phase of init keeps a pair that exists, and refuses a half of one.
func (m *machine) regenerate(ctx context.Context, c pki.Renewable) (remedy, command string) {
	inTheWay := slices.DeleteFunc([]string{m.local.Paths.Cert(c.Base), m.local.Paths.Key(c.Base)},
		func(file string) bool { return !m.exists(ctx, file) })
	return m.generateFile("certs "+c.Name, inTheWay...)
}

// replaceUnreadable is the finding about a certificate's file that cannot be read, or whose content is no
// certificate.
func (m *machine) replaceUnreadable(ctx context.Context, r state.Reader,
	c pki.Renewable) (f preflight.Finding) {
	if _, err := r.ReadFile(ctx, certstore.RenewablePath(m.local.Paths, c)); err != nil {
		f.Remedy = "make the file readable: check its type and the file system"
		return f
	}
	f.Remedy, f.Command = m.regenerate(ctx, c)
	f.Remedy = "restore a good copy of the file, or " + f.Remedy
	return f
}

// errOtherName says that a certificate is not valid for a name under which clients reach its server.
var errOtherName = errors.New("is not valid for")

// replaceInvalid is the finding about a certificate with which something is wrong. A renewal keeps the
// names of the old certificate.
func (m *machine) replaceInvalid(ctx context.Context, c pki.Renewable,
	err error) (f preflight.Finding) {
	if !errors.Is(err, errOtherName) {
		f.Command = "kubeadm certs renew " + c.Name + " --restart"
		f.Remedy = "renew it: " + f.Command
		return f
	}
	field := map[string]string{"apiserver": "apiServer.certSANs",
		"etcd-server": "etcd.local.serverCertSANs", "etcd-peer": "etcd.local.peerCertSANs"}[c.Name]
	remedy, command := m.regenerate(ctx, c)
	f.Remedy = fmt.Sprintf("add the name to %s of the stored configuration, unless it is the address of this node: "+
		"kubectl -n kube-system edit configmap kubeadm-config; %s", field, remedy)
	if command != "" {
		f.Remedy += ": " + command
	}
	return f
}

func (m *machine) checkCA(ctx context.Context, r state.Reader, rep *preflight.Report,
	p pki.Profile) {
	found, err := certstore.ReadPair(ctx, r, m.local.Paths, p.Base)
	if err != nil {
		addError(rep, preflight.Finding{}, err)
		return
	}
	if found.Certificate == nil {
		rep.Add(preflight.Finding{Severity: preflight.Error,
			Text:   fmt.Sprintf("%s does not exist", m.local.Paths.Cert(p.Base)),
			Remedy: "restore it from a backup, or copy it from another control plane node"})
		return
	}
	ca, err := certstore.CheckCA(m.local.Paths, p, found, r.Now())
	if err != nil {
		addError(rep, preflight.Finding{}, err)
		return
	}
	if expiresSoon(ca.Certificate, replaceBefore, r.Now()) {
		rep.Add(preflight.Finding{Severity: preflight.Warning,
			Text: fmt.Sprintf("the certificate authority %s expires on %s", m.local.Paths.Cert(p.Base),
				ca.Certificate.NotAfter.UTC().Format(time.RFC3339)),
			Remedy: "replace the CAs of the cluster in stages, on every node: kubeadm certs rotate-ca --help"})
	}
}

// checkCertificate returns an error if the certificate is not valid now, not signed by its CA, does
// not match its key, or lacks a name under which clients reach its server.
func (m *machine) checkCertificate(ctx context.Context, r state.Reader, c pki.Renewable,
	cert *x509.Certificate) error {
	file := certstore.RenewablePath(m.local.Paths, c)
	if err := pki.CheckPeriod(cert, r.Now()); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := certstore.CheckRenewableKey(ctx, r, m.local.Paths, c); err != nil {
		return err
	}
	issuer, _ := pki.ProfileOf(c.Issuer)
	cas, err := m.readCAs(ctx, r, issuer.Base)
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
		names = []string{m.local.Address}
		for _, own := range []string{m.local.Paths.Kubeconfig("admin.conf"),
			m.local.Paths.KubeletKubeconfig()} {
			if endpoint, err := m.endpointOf(ctx, own); err == nil {
				host, _, _ := net.SplitHostPort(endpoint)
				names = append(names, host)
			}
		}
	case "etcd-server", "etcd-peer":
		names = []string{m.local.Address}
	}
	for _, name := range names {
		if name != "" && cert.VerifyHostname(name) != nil {
			return fmt.Errorf("%s %w %s, under which clients reach its server", file, errOtherName, name)
		}
	}
	return nil
}

// checkServed finds components that use another certificate than that on disk.
func (m *machine) checkServed(ctx context.Context, r state.Reader, rep *preflight.Report) {
	if m.noSocket != nil {
		rep.Skip("the container runtime is unknown: see check CRI")
		return
	}
	uses, err := certuse.ListInUse(ctx, m.env, m.asNode(ctx))
	if err != nil {
		rep.Skip("%v", err)
	}
	_, noRuntime := m.runtime(ctx, r)
	for _, u := range uses {
		if u.Stale == nil || u.NotRunning { // check StaticPods reports one that does not run
			continue
		}
		if u.Address == "" && noRuntime != nil { // only its container says since when it runs
			rep.Skip("%s: the container runtime does not answer: see check CRI", u.Component)
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

func (m *machine) checkServiceAccountKeys(ctx context.Context, r state.Reader,
	rep *preflight.Report) {
	if err := certstore.CheckServiceAccountKeys(ctx, r, m.asNode(ctx)); err != nil {
		addError(rep, preflight.Finding{}, err)
	}
}

// checkKubeconfigs checks the kubeconfigs of this machine: address, CA and client certificate.
func (m *machine) checkKubeconfigs(ctx context.Context, r state.Reader, rep *preflight.Report) {
	cas, err := m.readCAs(ctx, r, "ca")
	if err != nil {
		addError(rep, preflight.Finding{Remedy: "restore it from a backup, or copy it from another node"},
			err)
		return
	}
	for _, p := range pki.KubeconfigProfiles() {
		if !m.isControlPlane() && !p.PerNode {
			continue
		}
		file := m.local.Paths.Kubeconfig(p.File)
		data, err := r.ReadFile(ctx, file)
		if errors.Is(err, fs.ErrNotExist) {
			m.reportMissing(ctx, rep, p, file)
			continue
		}
		f := preflight.Finding{Command: "kubeadm certs renew " + p.File + " --restart"}
		if p.PerNode {
			f.Command = ""
		}
		if err != nil {
			addError(rep, preflight.Finding{}, err)
			continue
		}
		checked := certstore.KubeconfigFile{Path: file, Data: data, CAs: cas,
			Server: m.expectedServer(ctx, r, data)}
		_, warnings, err := checked.Check(ctx, r)
		if err != nil {
			addError(rep, f, err)
			continue
		}
		for _, text := range warnings {
			rep.Add(preflight.Finding{Severity: preflight.Error, Text: file + ": " +
				strings.TrimSuffix(text, "; it is kept as it is"),
				Remedy: untrusted.CommandHint("set the API server's address in the file",
					"kubectl config set-cluster NAME --kubeconfig", file, "--server="+checked.Server)})
		}
	}
}

func (m *machine) reportMissing(ctx context.Context, rep *preflight.Report,
	p pki.KubeconfigProfile, file string) {
	f := preflight.Finding{Severity: preflight.Error, Text: file + " does not exist"}
	f.Remedy, f.Command = m.generateFile("kubeconfig " + p.Name)
	switch {
	case p.Name == "super-admin": // moved away, or on the first control plane node only
		return
	case p.Name == "admin": // the user may have moved it away
		f.Severity = preflight.Warning
	case p.PerNode && m.exists(ctx, m.local.Paths.BootstrapKubeconfig()):
		f.Text = "the kubelet has not received its client certificate: " + f.Text
		f.Remedy = "check its log, journalctl -xeu kubelet, and whether its request is pending: kubectl get csr; " +
			"if the token has expired, re-run kubeadm join with a new one"
		f.Command = ""
	case p.PerNode && !m.isControlPlane():
		f.Remedy, f.Command = "remove the node and join it again: kubeadm reset, kubeadm join", ""
	}
	rep.Add(f)
}

// expectedServer returns the URL that a kubeconfig should have. One of several that are right is that
// in the file: of the API server beside it, or with any host that the certificate of the API server
// names, such as that of a load balancer on each node. Of a host that it does not name, the control
// plane endpoint is right.
func (m *machine) expectedServer(ctx context.Context, r state.Reader, data []byte) string {
	config, err := pki.ParseKubeconfig(data)
	if err != nil {
		return ""
	}
	cluster, err := config.CurrentCluster()
	if err != nil || !m.isControlPlane() || m.local.Address == "" ||
		cluster.Server == m.local.LocalServerURL() {
		if cluster == nil {
			return ""
		}
		return cluster.Server // that of a worker is not known
	}
	served, err := certstore.ReadRenewable(ctx, r, m.local.Paths, pki.Renewable{Base: "apiserver"})
	isKnown := err == nil && served != nil
	u, wrongURL := url.Parse(cluster.Server)
	if isKnown && wrongURL == nil && served.VerifyHostname(u.Hostname()) == nil {
		return cluster.Server
	}
	if _, apiErr := m.api(ctx, r); apiErr == nil {
		if n, err := m.stored(ctx, r); err == nil {
			return n.ServerURL()
		}
	}
	if !isKnown && wrongURL == nil {
		return cluster.Server
	}
	return m.local.LocalServerURL()
}

// checkPermissions checks that no user but the owner's group can read private keys and kubeconfigs.
func (m *machine) checkPermissions(ctx context.Context, r state.Reader, rep *preflight.Report) {
	paths := m.local.Paths
	for _, dir := range []string{paths.Kubernetes, paths.Certificates, path.Join(paths.Certificates, "etcd"),
		path.Join(paths.Kubelet, "pki")} {
		files, err := r.ReadDir(ctx, dir)
		if err != nil {
			continue // other checks report files that are missing
		}
		for _, f := range files {
			isSecret := path.Ext(f.Path) == ".key" || path.Ext(f.Path) == ".conf" ||
				dir == path.Join(paths.Kubelet, "pki") && path.Ext(f.Path) == ".pem"
			const others = 0o007
			if isSecret && f.Mode.IsRegular() && f.Mode.Perm()&others != 0 {
				rep.Add(preflight.Finding{Severity: preflight.Error,
					Text:     f.Path + " can be read or written by every user of this machine",
					Evidence: "its mode is " + f.Mode.String(),
					Remedy:   "remove access for other users", Command: untrusted.Command("chmod o=", f.Path)})
			}
		}
	}
}
