package address

import (
	"context"
	"crypto/x509"
	"fmt"

	"kubeadm/internal/certstore"
	"kubeadm/internal/certuse"
	"kubeadm/internal/engine"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/pki"
	"kubeadm/internal/renewal"
)

// issueCertificates issues the serving certificates of this node for both addresses. Other nodes verify the address
// of a member of etcd from both sides of a connection, so this comes first.
func (m *machine) issueCertificates(ctx context.Context, e *engine.Env) error {
	hasReissued, err := m.reissue(ctx, e, m.withTo)
	if err != nil {
		return err
	}
	if !hasReissued {
		return nil // on the way back its servers may not work
	}
	if !m.IsPrepared || m.IsForgotten {
		return nil // its servers have no address, or no etcd, with which they could start
	}
	present := *m.Node
	present.Local = m.Present
	return certuse.AwaitServed(ctx, e, &present)
}

// withTo are the names of a certificate and the new address.
func (m *machine) withTo(cert *x509.Certificate) pki.SANs {
	to, _ := pki.ParseSANs([]string{m.To})
	return pki.SANsOf(cert).Plus(to)
}

// withoutFrom are the names of a certificate without the previous addresses, unless the configuration of the
// cluster lists them.
func (m *machine) withoutFrom(cert *x509.Certificate) pki.SANs {
	var lost pki.SANs
	for _, ip := range cert.IPAddresses {
		if m.IsFrom(ip.String()) {
			lost.IPs = append(lost.IPs, ip)
		}
	}
	listed := append(append([]string{m.CertificateNames().ControlPlaneHost}, m.Cluster.CertSANs...),
		append(m.Cluster.Etcd.ServerCertSANs, m.Cluster.Etcd.PeerCertSANs...)...)
	kept, _ := pki.ParseSANs(listed)
	return pki.SANsOf(cert).Without(lost.Without(kept))
}

// reissue issues the serving certificates whose names are to change, and reports whether there were any.
func (m *machine) reissue(ctx context.Context, e *engine.Env, wanted func(*x509.Certificate) pki.SANs) (hasReissued bool,
	err error) {
	for _, c := range nodeaddress.ServingCertificates(m.Node) {
		cert, err := certstore.ReadRenewable(ctx, e.World, m.Paths, c)
		if err == nil && cert == nil {
			err = fmt.Errorf("%s does not exist", m.Paths.Cert(c.Base))
		}
		if err != nil {
			return hasReissued, err
		}
		sans := wanted(cert)
		if sans.String() == pki.SANsOf(cert).String() {
			continue
		}
		if err := renewal.Reissue(ctx, e, c, sans); err != nil {
			return hasReissued, err
		}
		hasReissued = true
	}
	return hasReissued, nil
}
