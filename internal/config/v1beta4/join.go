package v1beta4

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// JoinConfiguration is how this machine joins a cluster.
type JoinConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// CACertPath is where the CA of the cluster is kept; it ends in ".crt".
	CACertPath string `json:"caCertPath,omitempty"`
	// ControlPlane makes this machine a control plane; null makes it a worker.
	ControlPlane *JoinControlPlane `json:"controlPlane,omitempty"`
	// Discovery says how to find the cluster and what to show there.
	Discovery Discovery `json:"discovery"`
	// DryRun only shows what would be done.
	DryRun bool `json:"dryRun,omitempty"`
	// NodeRegistration describes this machine as a node.
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty"`
	// Patches says where files are that change what is deployed.
	Patches *Patches `json:"patches,omitempty"`
	// SkipPhases are addresses of phases to leave out.
	SkipPhases []string `json:"skipPhases,omitempty"`
	// Timeouts bound the waits.
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// JoinControlPlane is what a joining control plane needs beside what a worker needs.
type JoinControlPlane struct {
	// CertificateKey is the hex key (32 bytes) that decrypts uploaded certificates.
	CertificateKey string `json:"certificateKey,omitempty"`
	// LocalAPIEndpoint is where the API server of this machine will listen.
	LocalAPIEndpoint APIEndpoint `json:"localAPIEndpoint,omitempty"`
}

// Discovery has exactly one of BootstrapToken and File set.
type Discovery struct {
	// BootstrapToken trusts what a token has signed.
	BootstrapToken *BootstrapTokenDiscovery `json:"bootstrapToken,omitempty"`
	// File trusts a kubeconfig.
	File *FileDiscovery `json:"file,omitempty"`
	// TLSBootstrapToken is what the kubelet shows to get its certificate; the
	// discovery token if empty.
	TLSBootstrapToken string `json:"tlsBootstrapToken,omitempty"`
}

// BootstrapTokenDiscovery trusts what a token has signed.
type BootstrapTokenDiscovery struct {
	// APIServerEndpoint is the "host:port" to ask.
	APIServerEndpoint string `json:"apiServerEndpoint,omitempty"`
	// CACertHashes are "sha256:<hex>" digests of public keys, one of which the
	// cluster's CA must have.
	CACertHashes []string `json:"caCertHashes,omitempty"`
	// Token is "id.secret".
	Token string `json:"token"`
	// UnsafeSkipCAVerification goes without CACertHashes: whoever knows the token
	// can then pose as the cluster.
	UnsafeSkipCAVerification bool `json:"unsafeSkipCAVerification,omitempty"`
}

// FileDiscovery trusts a kubeconfig.
type FileDiscovery struct {
	// KubeConfigPath is a path or an https URL.
	KubeConfigPath string `json:"kubeConfigPath"`
}
