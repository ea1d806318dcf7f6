package v1beta3

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config/v1beta4"
)

// InitConfiguration is the configuration of init on this machine.
type InitConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// BootstrapTokens are created for joining nodes.
	BootstrapTokens []v1beta4.BootstrapToken `json:"bootstrapTokens,omitempty"`
	// CertificateKey is the hex key that encrypts uploaded certificates.
	CertificateKey string `json:"certificateKey,omitempty"`
	// LocalAPIEndpoint is where the API server of this machine listens.
	LocalAPIEndpoint v1beta4.APIEndpoint `json:"localAPIEndpoint,omitempty"`
	// NodeRegistration describes this machine as a node.
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty"`
	// Patches configures the patches of manifests.
	Patches *v1beta4.Patches `json:"patches,omitempty"`
	// SkipPhases are phases to skip.
	SkipPhases []string `json:"skipPhases,omitempty"`
}

// NodeRegistrationOptions describe a machine as a node.
type NodeRegistrationOptions struct {
	// CRISocket is the container runtime's socket.
	CRISocket string `json:"criSocket,omitempty"`
	// IgnorePreflightErrors are checks whose errors count as warnings.
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
	// ImagePullPolicy is Always, IfNotPresent or Never.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// KubeletExtraArgs are additional flags of the kubelet, by name.
	KubeletExtraArgs map[string]string `json:"kubeletExtraArgs,omitempty"`
	// Name is the name of the Node object.
	Name string `json:"name,omitempty"`
	// Taints of the Node. Null means the default taints, an empty list none.
	Taints []corev1.Taint `json:"taints"`
}
