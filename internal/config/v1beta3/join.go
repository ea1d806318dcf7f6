package v1beta3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config/v1beta4"
)

// JoinConfiguration is the configuration of join on this machine.
type JoinConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// CACertPath is the path of the cluster CA.
	CACertPath string `json:"caCertPath,omitempty"`
	// ControlPlane makes this machine a control plane.
	ControlPlane *v1beta4.JoinControlPlane `json:"controlPlane,omitempty"`
	// Discovery says how to discover the cluster and how to authenticate.
	Discovery Discovery `json:"discovery"`
	// NodeRegistration describes this machine as a node.
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty"`
	// Patches configures the patches of manifests.
	Patches *v1beta4.Patches `json:"patches,omitempty"`
	// SkipPhases are phases to skip.
	SkipPhases []string `json:"skipPhases,omitempty"`
}

// Discovery is v1beta4's and a timeout.
type Discovery struct {
	v1beta4.Discovery `json:",inline"`

	// Timeout limits the discovery.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}
