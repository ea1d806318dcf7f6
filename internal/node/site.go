package node

import (
	"net"

	"kubeadm/internal/pki"
)

// Site is the data of this node for its certificates.
func (n *Node) Site() pki.NodeNames {
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
