package node

import (
	"net"

	"kubeadm/internal/pki"
)

// CertificateNames are the names and addresses of this node that its certificates contain.
func (n *Node) CertificateNames() pki.NodeNames {
	host := n.Cluster.Endpoint
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return pki.NodeNames{
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
