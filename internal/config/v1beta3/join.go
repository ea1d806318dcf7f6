package v1beta3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config/v1beta4"
)

// JoinConfiguration is how this machine joins a cluster.
type JoinConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// CACertPath is where the CA of the cluster is kept.
	CACertPath string `json:"caCertPath,omitempty"`
	// ControlPlane makes this machine a control plane.
	ControlPlane *v1beta4.JoinControlPlane `json:"controlPlane,omitempty"`
	// Discovery says how to find the cluster and what to show there.
	Discovery Discovery `json:"discovery"`
	// NodeRegistration describes this machine as a node.
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty"`
	// Patches says where files are that change what is deployed.
	Patches *v1beta4.Patches `json:"patches,omitempty"`
	// SkipPhases are addresses of phases to leave out.
	SkipPhases []string `json:"skipPhases,omitempty"`
}

// Discovery is v1beta4's and a limit for it.
type Discovery struct {
	v1beta4.Discovery `json:",inline"`

	// Timeout bounds the discovery.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Convert is the document in v1beta4, without defaults.
func (c *JoinConfiguration) Convert() v1beta4.JoinConfiguration {
	to := v1beta4.JoinConfiguration{
		CACertPath:       c.CACertPath,
		ControlPlane:     c.ControlPlane,
		Discovery:        c.Discovery.Discovery,
		NodeRegistration: c.NodeRegistration.convert(),
		Patches:          c.Patches,
		SkipPhases:       c.SkipPhases,
	}
	if c.Discovery.Timeout != nil {
		to.Timeouts = &v1beta4.Timeouts{Discovery: c.Discovery.Timeout}
	}
	return to
}
