package nodename

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

// reissue issues the serving certificates of this node for its new name, and no longer for the previous one. The components
// read them without a restart.
func (r *renaming) reissue(ctx context.Context, e *engine.Env) error {
	for _, c := range nodeaddress.ServingCertificates(r.Node) {
		cert, err := certstore.ReadRenewable(ctx, e.World, r.Paths, c)
		if err == nil && cert == nil {
			err = fmt.Errorf("%s does not exist", r.Paths.Cert(c.Base))
		}
		if err != nil {
			return err
		}
		sans, name := r.namesOf(cert)
		if sans.String() == pki.SANsOf(cert).String() && (name == "" || name == cert.Subject.CommonName) {
			continue
		}
		if err := renewal.ReissueFor(ctx, e, c, name, sans); err != nil {
			return err
		}
	}
	return certuse.AwaitServed(ctx, e, r.Node)
}

// namesOf returns the names that a certificate is to have. The previous one stays if the configuration of the cluster lists it.
func (r *renaming) namesOf(cert *x509.Certificate) (sans pki.SANs, commonName string) {
	to, _ := pki.ParseSANs([]string{r.To})
	from, _ := pki.ParseSANs([]string{r.From()})
	kept, _ := pki.ParseSANs(append(append([]string{r.CertificateNames().ControlPlaneHost}, r.Cluster.CertSANs...),
		append(r.Cluster.Etcd.ServerCertSANs, r.Cluster.Etcd.PeerCertSANs...)...))
	if cert.Subject.CommonName == r.From() {
		commonName = r.To
	}
	return pki.SANsOf(cert).Without(from.Without(kept)).Plus(to), commonName
}
