package v1beta4

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// JoinConfiguration is the configuration of join on this machine.
type JoinConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// CACertPath is the path of the cluster CA; it ends in ".crt".
	CACertPath string `json:"caCertPath,omitempty"`
	// ControlPlane makes this machine a control plane; null makes it a worker.
	ControlPlane *JoinControlPlane `json:"controlPlane,omitempty"`
	// Discovery says how to discover the cluster and how to authenticate.
	Discovery Discovery `json:"discovery"`
	// DryRun only shows what would be done.
	DryRun bool `json:"dryRun,omitempty"`
	// NodeRegistration describes this machine as a node.
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty"`
	// Patches configures the patches of manifests.
	Patches *Patches `json:"patches,omitempty"`
	// SkipPhases are phases to skip.
	SkipPhases []string `json:"skipPhases,omitempty"`
	// Timeouts limit the waits.
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// JoinControlPlane holds the settings of a joining control plane.
type JoinControlPlane struct {
	// CertificateKey is the hex key (32 bytes) that decrypts uploaded certificates.
	CertificateKey string `json:"certificateKey,omitempty"`
	// LocalAPIEndpoint is where the API server of this machine will listen.
	LocalAPIEndpoint APIEndpoint `json:"localAPIEndpoint,omitempty"`
}

// Discovery has exactly one of BootstrapToken and File set.
type Discovery struct {
	// BootstrapToken is discovery by a bootstrap token.
	BootstrapToken *BootstrapTokenDiscovery `json:"bootstrapToken,omitempty"`
	// File is discovery by a kubeconfig.
	File *FileDiscovery `json:"file,omitempty"`
	// TLSBootstrapToken is the token of the kubelet's TLS bootstrap; the discovery
	// token if empty.
	TLSBootstrapToken string `json:"tlsBootstrapToken,omitempty"`
}

// BootstrapTokenDiscovery is discovery by the cluster-info that a bootstrap token signs.
type BootstrapTokenDiscovery struct {
	// APIServerEndpoint is the "host:port" of an API server.
	APIServerEndpoint string `json:"apiServerEndpoint,omitempty"`
	// CACertHashes are "sha256:<hex>" hashes of public keys. The cluster CA must match one of
	// them.
	CACertHashes []string `json:"caCertHashes,omitempty"`
	// Token is "id.secret".
	Token string `json:"token"`
	// UnsafeSkipCAVerification allows discovery without CACertHashes: anyone with the token can
	// then impersonate the cluster.
	UnsafeSkipCAVerification bool `json:"unsafeSkipCAVerification,omitempty"`
}

// FileDiscovery is discovery by a kubeconfig.
type FileDiscovery struct {
	// KubeConfigPath is a path or an https URL.
	KubeConfigPath string `json:"kubeConfigPath"`
}
