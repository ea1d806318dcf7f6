package node

import (
	"net"
	"path"

	"kubeadm/internal/pki"
)

// Site is what this node's certificates say about it.
func (n *Node) Site() pki.Site {
	host := n.Cluster.Endpoint
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return pki.Site{
		NodeName:         n.Name,
		AdvertiseAddress: n.Address,
		ServiceSubnet:    n.Cluster.ServiceSubnet,
		ControlPlaneHost: host,
		DNSDomain:        n.Cluster.DNSDomain,
		APIServerSANs:    n.Cluster.CertSANs,
		EtcdServerSANs:   n.Cluster.Etcd.ServerCertSANs,
		EtcdPeerSANs:     n.Cluster.Etcd.PeerCertSANs,
	}
}

// Certificate is the path of a file that pki names relative to the certificates directory.
func (p Paths) Certificate(file string) string { return path.Join(p.Certificates, file) }
