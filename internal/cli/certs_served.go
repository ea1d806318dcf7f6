package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/certuse"
	"kubeadm/internal/engine"
	"kubeadm/internal/localkubelet"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
)

// served is a certificate that a component uses, beside the one on disk.
type served struct {
	Component string       `json:"component"`
	Address   string       `json:"address,omitempty"`
	File      string       `json:"file,omitempty"`
	Serial    string       `json:"serialNumber,omitempty"` // hexadecimal
	Date      *metav1.Time `json:"expirationDate"`
	Residual  int64        `json:"residualTime"` // seconds
	// IsCurrent reports whether it is the certificate in File.
	IsCurrent bool   `json:"isCurrent"`
	Problem   string `json:"problem,omitempty"` // why not
	// isUnknown is set if the component uses a client certificate that is not known.
	isUnknown bool
}

// addServed adds what components use, the kubelet's certificates and those for an external etcd.
func (x *expirations) addServed(ctx context.Context, r *run.Run, n *node.Node) error {
	e := r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n)})
	uses, err := certuse.ListInUse(ctx, e, n)
	if err != nil {
		x.unreadable = append(x.unreadable, err)
	}
	for _, u := range uses {
		x.Served = append(x.Served, newServed(u, e.World))
	}
	x.addKubelet(ctx, e.World, n)
	if external := n.Cluster.Etcd.External; external != nil {
		for _, of := range []struct{ name, file string }{
			{"external-etcd-client", external.CertFile}, {"external-etcd-ca", external.CAFile},
		} {
			if of.file == "" {
				continue
			}
			cert, err := readFirstCertificate(ctx, e.World, of.file)
			found := newExpiration(of.name, cert, err, e.World.Now())
			found.External = true
			x.addOther(found, err)
		}
	}
	return context.Cause(ctx)
}

func newServed(u certuse.InUse, r state.Reader) served {
	s := served{Component: u.Component, Address: u.Address, File: u.File,
		IsCurrent: u.Stale == nil && u.File != "",
		isUnknown: u.Stale != nil && u.Address == "" && !u.NotRunning}
	if u.Stale != nil {
		s.Problem = u.Stale.Error()
	}
	if c := u.Certificate; c != nil {
		found := newExpiration("", c, nil, r.Now())
		s.Serial, s.Date, s.Residual = fmt.Sprintf("%x", c.SerialNumber), found.Date, found.Residual
	}
	return s
}

// kubeletServer is the name of the kubelet's serving certificate.
const kubeletServer = "kubelet-server"

// addOther adds a certificate beside those of the control plane. The error says why it cannot be read.
func (x *expirations) addOther(e expiration, err error) {
	x.Others = append(x.Others, e)
	if err != nil {
		x.unreadable = append(x.unreadable, err)
	}
}

// addKubelet adds the certificates of the kubelet. Its serving certificate is self-signed, or issued
// on a certificate signing request (serverTLSBootstrap), or the user's.
func (x *expirations) addKubelet(ctx context.Context, r state.Reader, n *node.Node) {
	client, err := localkubelet.ReadClientCert(ctx, r, n.Paths)
	if err == nil && client == nil {
		return
	}
	found := newExpiration("kubelet-client", nil, err, r.Now())
	if err == nil && client.Certificate != nil {
		found = newExpiration("kubelet-client", client.Certificate, nil, r.Now())
		found.CA = client.Certificate.Issuer.CommonName
	}
	x.addOther(found, err)
	file, err := findKubeletServer(ctx, r, n)
	if err == nil && file == "" {
		return
	}
	var cert *x509.Certificate
	if err == nil {
		cert, err = readFirstCertificate(ctx, r, file)
	}
	server := newExpiration(kubeletServer, cert, err, r.Now())
	if cert != nil {
		server.CA = cert.Issuer.CommonName
	}
	x.addOther(server, err)
	if err != nil || n.Address == "" {
		return
	}
	use := certuse.InUse{Component: "kubelet", File: file,
		Address: net.JoinHostPort(n.Address, "10250")}
	use.Certificate, use.Stale = r.ServedCertificate(ctx, use.Address)
	if use.Stale == nil && (cert == nil || !use.Certificate.Equal(cert)) {
		use.Stale = errors.New("it serves a different one")
	}
	x.Served = append(x.Served, newServed(use, r))
}

// findKubeletServer returns the file with the kubelet's serving certificate; empty if there is none.
func findKubeletServer(ctx context.Context, r state.Reader, n *node.Node) (string, error) {
	data, err := state.ReadOptional(ctx, r, n.Paths.KubeletConfig())
	if err != nil {
		return "", err
	}
	var config kubeletconfig.KubeletConfiguration
	if yaml.Unmarshal(data, &config) == nil && config.TLSCertFile != "" {
		return config.TLSCertFile, nil
	}
	dir := path.Join(n.Paths.Kubelet, "pki")
	for _, name := range []string{"kubelet-server-current.pem", "kubelet.crt"} {
		exists, err := state.Exists(ctx, r, path.Join(dir, name))
		if err != nil || exists {
			return path.Join(dir, name), err
		}
	}
	return "", nil
}

// readFirstCertificate returns nil for a file that does not exist.
func readFirstCertificate(ctx context.Context, r state.Reader, file string) (*x509.Certificate, error) {
	data, err := r.ReadFile(ctx, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, state.ExplainMisplaced(ctx, r, file, err)
	}
	certs, err := pki.ParseCertificates(data)
	if err != nil {
		return nil, problem.During("reading "+file, err, "restore the file from a backup")
	}
	return certs[0], nil
}

// writeServed prints two more tables.
func (x expirations) writeServed(out io.Writer) error {
	if _, err := fmt.Fprintln(out); err != nil {
		return err
	}
	w := report.NewTable(out, 10, "OTHER CERTIFICATE", "EXPIRES", "RESIDUAL TIME", "ISSUER",
		"EXTERNALLY MANAGED")
	for _, e := range x.Others {
		e.writeRow(w)
	}
	w.Section("COMPONENT", "ADDRESS", "SERIAL NUMBER", "EXPIRES", "RESIDUAL TIME", "MATCHES DISK")
	for _, s := range x.Served {
		date, residual, current := "", "", yesOrNo(s.IsCurrent)
		if s.Date != nil {
			date, residual = expiration{Date: s.Date, Residual: s.Residual}.cells()
		}
		if !s.IsCurrent {
			current += ": " + s.Problem
		}
		w.Row(s.Component, s.Address, s.Serial, date, residual, current)
	}
	return w.Flush()
}
