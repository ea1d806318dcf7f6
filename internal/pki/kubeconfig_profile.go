package pki

import (
	"crypto/x509"
	"time"
)

// KubeconfigProfile describes one kubeconfig file of a control plane.
type KubeconfigProfile struct {
	Name               string // as in the phase "kubeconfig <name>"
	File               string // below the Kubernetes directory, /etc/kubernetes
	Purpose            string // whose it is, for messages
	User               string // common name of the client certificate; with PerNode its prefix
	Organization       []string
	PerNode            bool // the user is this node, and its kubelet rotates the certificate
	UsesLocalAPIServer bool // uses this node's API server, not the control plane endpoint
	OnJoin             bool // written by a control plane's join too, not by init alone
	InitNeed           Need // of the key of its client certificate, in an init
	JoinNeed           Need // and in a join
}

// Names of kubeconfigs in KubeconfigProfile.Name.
const (
	AdminKubeconfig   = "admin"
	KubeletKubeconfig = "kubelet"
)

// Need is when a join, or else an init, needs the key.
func (p KubeconfigProfile) Need(joins bool) Need {
	if joins {
		return p.JoinNeed
	}
	return p.InitNeed
}

// KubeconfigProfiles lists the files in the order in which they are written.
func KubeconfigProfiles() []KubeconfigProfile {
	return []KubeconfigProfile{
		{Name: AdminKubeconfig, File: "admin.conf", User: "kubernetes-admin",
			Organization: []string{"kubeadm:cluster-admins"}, OnJoin: true, JoinNeed: First,
			Purpose: "the cluster administrator (ClusterRole cluster-admin)"},
		{Name: "super-admin", File: "super-admin.conf", User: "kubernetes-super-admin",
			Organization: []string{"system:masters"},
			Purpose:      "the super-admin user (bypasses RBAC, for emergencies only)"},
		{Name: KubeletKubeconfig, File: "kubelet.conf", User: "system:node:", PerNode: true, InitNeed: First,
			Organization: []string{"system:nodes"}, UsesLocalAPIServer: true,
			Purpose: "this node's kubelet"},
		{Name: "controller-manager", File: "controller-manager.conf",
			User:               "system:kube-controller-manager",
			UsesLocalAPIServer: true, OnJoin: true, Purpose: "the controller manager"},
		{Name: "scheduler", File: "scheduler.conf", User: "system:kube-scheduler",
			UsesLocalAPIServer: true, OnJoin: true, Purpose: "the scheduler"},
	}
}

// UserName returns the user name on the node with that name.
func (p KubeconfigProfile) UserName(node string) string {
	if p.PerNode {
		return p.User + node
	}
	return p.User
}

// Spec returns the contents of the file's client certificate on that node. Its NotBefore is
// that of the CA, unlike in the certificates of Profiles.
func (p KubeconfigProfile) Spec(node string, ca *x509.Certificate, notAfter time.Time) Spec {
	return ClientSpec(p.UserName(node), p.Organization,
		Validity{NotBefore: ca.NotBefore, NotAfter: notAfter})
}

// ClientSpec returns the Spec of a user's client certificate.
func ClientSpec(user string, organization []string, v Validity) Spec {
	return Spec{
		CommonName:   user,
		Organization: organization,
		Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		Validity:     v,
	}
}
