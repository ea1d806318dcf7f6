package pki

import "crypto/x509"

// Names of the certificate authorities, as Profile.Name and Profile.Issuer hold them.
const (
	ClusterCA    = "ca"
	FrontProxyCA = "front-proxy-ca"
	EtcdCA       = "etcd-ca"
)

// The service account key pair, relative to the certificates directory. It has
// no certificate and so no Profile.
const (
	ServiceAccountKey       = "sa.key"
	ServiceAccountPublicKey = "sa.pub"
)

// Profile describes one certificate of a control plane: where it lies, who
// signs it and what it is for.
type Profile struct {
	Name         string // as in the phase "certs <name>" and in "certs renew <name>"
	Base         string // below the certificates directory, without .crt or .key
	Issuer       string // Name of the CA that signs it; empty: a self-signed CA
	For          string // its purpose, for people
	CommonName   string // empty: the node's name
	Organization []string
	Usages       []x509.ExtKeyUsage
	SANs         SANRule
}

// Profiles lists the certificates in the order in which they are made: each CA
// right before what it signs.
func Profiles() []Profile {
	server := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return []Profile{
		{Name: ClusterCA, Base: "ca", CommonName: "kubernetes",
			For: "the cluster's CA, which vouches for every Kubernetes component"},
		{Name: "apiserver", Base: "apiserver", Issuer: ClusterCA, CommonName: "kube-apiserver",
			Usages: server, SANs: APIServerSANs, For: "serving the Kubernetes API"},
		{Name: "apiserver-kubelet-client", Base: "apiserver-kubelet-client", Issuer: ClusterCA,
			CommonName: "kube-apiserver-kubelet-client", Usages: client, For: "the API server's calls to kubelets"},
		{Name: FrontProxyCA, Base: "front-proxy-ca", CommonName: "front-proxy-ca",
			For: "the CA for front proxies such as the API aggregator"},
		{Name: "front-proxy-client", Base: "front-proxy-client", Issuer: FrontProxyCA,
			CommonName: "front-proxy-client", Usages: client, For: "the front proxy's calls to extension API servers"},
		{Name: EtcdCA, Base: "etcd/ca", CommonName: "etcd-ca",
			For: "the CA for everyone who talks to etcd"},
		{Name: "etcd-server", Base: "etcd/server", Issuer: EtcdCA,
			Usages: both, SANs: EtcdServerSANs, For: "serving etcd's clients"},
		{Name: "etcd-peer", Base: "etcd/peer", Issuer: EtcdCA,
			Usages: both, SANs: EtcdPeerSANs, For: "etcd members talking to each other"},
		{Name: "etcd-healthcheck-client", Base: "etcd/healthcheck-client", Issuer: EtcdCA,
			CommonName: "kube-etcd-healthcheck-client", Usages: client, For: "probing etcd's health"},
		{Name: "apiserver-etcd-client", Base: "apiserver-etcd-client", Issuer: EtcdCA,
			CommonName: "kube-apiserver-etcd-client", Usages: client, For: "the API server's calls to etcd"},
	}
}

// ProfileOf finds the certificate with that name.
func ProfileOf(name string) (Profile, bool) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}

// IsCA reports whether the certificate signs others.
func (p Profile) IsCA() bool { return p.Issuer == "" }

// LocalEtcdOnly reports whether the certificate exists only where etcd runs on
// the control plane: etcd's CA and all that it signs.
func (p Profile) LocalEtcdOnly() bool { return p.Name == EtcdCA || p.Issuer == EtcdCA }

// CertificateFile is the certificate's path below the certificates directory.
func (p Profile) CertificateFile() string { return p.Base + ".crt" }

// KeyFile is the private key's path below the certificates directory.
func (p Profile) KeyFile() string { return p.Base + ".key" }

// RequestFile is where a certificate request is left for an external CA.
func (p Profile) RequestFile() string { return p.Base + ".csr" }

// Spec says what the certificate is to hold on this site. Extra SANs that are
// not usable come back in ignored, for a warning.
func (p Profile) Spec(s Site, v Validity) (spec Spec, ignored []string, err error) {
	spec = Spec{CommonName: p.CommonName, Organization: p.Organization, Usages: p.Usages, Validity: v}
	if spec.CommonName == "" {
		spec.CommonName = s.NodeName
	}
	spec.SANs, ignored, err = s.SANs(p.SANs)
	return spec, ignored, err
}

// SharedFiles lists, relative to the certificates directory, what every
// control plane of a cluster must have the same copy of. Etcd's CA belongs to
// it only where etcd is local.
func SharedFiles(localEtcd bool) []string {
	files := []string{
		"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key",
		ServiceAccountPublicKey, ServiceAccountKey,
	}
	if localEtcd {
		files = append(files, "etcd/ca.crt", "etcd/ca.key")
	}
	return files
}
