package pki

import (
	"crypto/x509"
	"time"
)

// KubeconfigProfile describes one kubeconfig file of a control plane.
type KubeconfigProfile struct {
	Name         string // as in the phase "kubeconfig <name>"
	File         string // below the Kubernetes directory, /etc/kubernetes
	For          string // its purpose, for people
	User         string // common name of the client certificate; PerNode: what precedes the node's name
	Organization []string
	PerNode      bool // the user is this node, and its kubelet renews the certificate
	Local        bool // talks to this node's API server rather than to the control plane endpoint
	OnJoin       bool // made on joining control planes too, not by init alone
}

// KubeconfigProfiles lists the files in the order in which they are made.
func KubeconfigProfiles() []KubeconfigProfile {
	return []KubeconfigProfile{
		{Name: "admin", File: "admin.conf", User: "kubernetes-admin",
			Organization: []string{"kubeadm:cluster-admins"}, OnJoin: true,
			For: "the administrator, whose rights a ClusterRoleBinding grants"},
		{Name: "super-admin", File: "super-admin.conf", User: "kubernetes-super-admin",
			Organization: []string{"system:masters"},
			For:          "emergencies: it bypasses authorization"},
		{Name: "kubelet", File: "kubelet.conf", User: "system:node:", PerNode: true,
			Organization: []string{"system:nodes"}, Local: true,
			For: "this node's kubelet"},
		{Name: "controller-manager", File: "controller-manager.conf", User: "system:kube-controller-manager",
			Local: true, OnJoin: true, For: "the controller manager"},
		{Name: "scheduler", File: "scheduler.conf", User: "system:kube-scheduler",
			Local: true, OnJoin: true, For: "the scheduler"},
	}
}

// UserOn is the user's name on the node with that name.
func (p KubeconfigProfile) UserOn(node string) string {
	if p.PerNode {
		return p.User + node
	}
	return p.User
}

// Spec says what the file's client certificate holds on that node. Unlike the
// certificates of Profiles it begins when its CA does.
func (p KubeconfigProfile) Spec(node string, ca *x509.Certificate, notAfter time.Time) Spec {
	return ClientSpec(p.UserOn(node), p.Organization, Validity{NotBefore: ca.NotBefore, NotAfter: notAfter})
}

// ClientSpec describes the client certificate of any user.
func ClientSpec(user string, organization []string, v Validity) Spec {
	return Spec{
		CommonName:   user,
		Organization: organization,
		Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		Validity:     v,
	}
}
