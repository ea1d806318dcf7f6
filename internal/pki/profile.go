package pki

import "crypto/x509"

// Names of the certificate authorities in Profile.Name and Profile.Issuer.
const (
	ClusterCA    = "ca"
	FrontProxyCA = "front-proxy-ca"
	EtcdCA       = "etcd-ca"
)

// Names of certificates of etcd in Profile.Name.
const (
	EtcdServer = "etcd-server"
	EtcdPeer   = "etcd-peer"
	// EtcdHealthcheckClient is that with which kubeadm itself connects to etcd.
	EtcdHealthcheckClient = "etcd-healthcheck-client"
)

// The service account key pair, relative to the certificates directory. It has
// no certificate and so no Profile.
const (
	ServiceAccountKey       = "sa.key"
	ServiceAccountPublicKey = "sa.pub"
)

// Profile describes one certificate of a control plane: its files, issuer and purpose.
type Profile struct {
	Name         string // as in the phase "certs <name>" and in "certs renew <name>"
	Base         string // below the certificates directory, without .crt or .key
	Issuer       string // Name of the CA that signs it; empty: a self-signed CA
	Purpose      string // what it is, for messages
	CommonName   string // empty: the node's name
	Organization []string
	Usages       []x509.ExtKeyUsage
	SANs         SANRule
	InitNeed     Need // of its key, in an init
	JoinNeed     Need // and in a join
}

// Need is when a join, or else an init, needs the key.
func (p Profile) Need(joins bool) Need {
	if joins {
		return p.JoinNeed
	}
	return p.InitNeed
}

// Profiles lists the certificates in the order in which they are generated: each CA
// before the certificates that it signs.
func Profiles() []Profile {
	server := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	client := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	return []Profile{
		{Name: ClusterCA, Base: "ca", CommonName: "kubernetes", InitNeed: First,
			Purpose: "the cluster CA, which signs the certificates of Kubernetes components"},
		{Name: "apiserver", Base: "apiserver", Issuer: ClusterCA, CommonName: "kube-apiserver",
			Usages: server, SANs: APIServerSANs, Purpose: "the API server's serving certificate"},
		{Name: "apiserver-kubelet-client", Base: "apiserver-kubelet-client", Issuer: ClusterCA,
			CommonName: "kube-apiserver-kubelet-client", Usages: client,
			Purpose: "the client certificate that the API server uses to connect to kubelets"},
		{Name: FrontProxyCA, Base: "front-proxy-ca", CommonName: "front-proxy-ca",
			Purpose: "the front proxy CA, which signs the API server's client certificate for extension API servers"},
		{Name: "front-proxy-client", Base: "front-proxy-client", Issuer: FrontProxyCA,
			CommonName: "front-proxy-client", Usages: client,
			Purpose: "the client certificate that the API server presents to extension API servers (aggregation layer)"},
		{Name: EtcdCA, Base: "etcd/ca", CommonName: "etcd-ca", InitNeed: First,
			Purpose: "the etcd CA, which signs the certificates of etcd servers, peers and clients"},
		{Name: EtcdServer, Base: "etcd/server", Issuer: EtcdCA,
			Usages: both, SANs: EtcdServerSANs, InitNeed: First, Purpose: "the etcd member's serving certificate"},
		{Name: EtcdPeer, Base: "etcd/peer", Issuer: EtcdCA,
			Usages: both, SANs: EtcdPeerSANs, InitNeed: First, Purpose: "the etcd member's peer certificate"},
		{Name: EtcdHealthcheckClient, Base: "etcd/healthcheck-client", Issuer: EtcdCA,
			CommonName: "kube-etcd-healthcheck-client", Usages: client, JoinNeed: First,
			Purpose: "the client certificate for etcd health checks"},
		{Name: "apiserver-etcd-client", Base: "apiserver-etcd-client", Issuer: EtcdCA,
			CommonName: "kube-apiserver-etcd-client", Usages: client,
			Purpose: "the client certificate that the API server uses to connect to etcd"},
	}
}

// ProfileOf returns the profile with that name.
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

// LocalEtcdOnly reports whether the certificate exists only with stacked etcd: etcd's CA and
// all that it signs.
func (p Profile) LocalEtcdOnly() bool { return p.Name == EtcdCA || p.Issuer == EtcdCA }

// CertificateFile is the certificate's path below the certificates directory.
func (p Profile) CertificateFile() string { return p.Base + ".crt" }

// KeyFile is the private key's path below the certificates directory.
func (p Profile) KeyFile() string { return p.Base + ".key" }

// Spec returns the contents of the certificate on this node. Extra SANs that are
// neither IP address nor DNS name are returned in ignored, for a warning.
func (p Profile) Spec(s NodeNames, v Validity) (spec Spec, ignored []string, err error) {
	spec = Spec{CommonName: p.CommonName, Organization: p.Organization, Usages: p.Usages,
		Validity: v}
	if spec.CommonName == "" {
		spec.CommonName = s.NodeName
	}
	spec.SANs, ignored, err = s.SANs(p.SANs)
	return spec, ignored, err
}

// SharedFiles lists the files, relative to the certificates directory, that must be the same on
// all control planes of a cluster. Etcd's CA is one of them with stacked etcd only.
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
