package v1beta4

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InitConfiguration is the configuration of init on this machine. The cluster does not store it.
type InitConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// BootstrapTokens are created for joining nodes; the default is one token with all defaults.
	BootstrapTokens []BootstrapToken `json:"bootstrapTokens,omitempty"`
	// CertificateKey is the hex key (32 bytes) that encrypts uploaded certificates.
	CertificateKey string `json:"certificateKey,omitempty"`
	// DryRun only shows what would be done.
	DryRun bool `json:"dryRun,omitempty"`
	// LocalAPIEndpoint is where the API server of this machine listens.
	LocalAPIEndpoint APIEndpoint `json:"localAPIEndpoint,omitempty"`
	// NodeRegistration describes this machine as a node.
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty"`
	// Patches configures the patches of manifests.
	Patches *Patches `json:"patches,omitempty"`
	// SkipPhases are phases to skip, such as "addon/kube-proxy".
	SkipPhases []string `json:"skipPhases,omitempty"`
	// Timeouts limit the waits.
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// BootstrapToken allows machines to join until it expires.
type BootstrapToken struct {
	// Description says what the token is for.
	Description string `json:"description,omitempty"`
	// Expires is the expiration time. Mutually exclusive with TTL.
	Expires *metav1.Time `json:"expires,omitempty"`
	// Groups are the groups of the token; all begin with "system:bootstrappers:".
	Groups []string `json:"groups,omitempty"`
	// Token is "id.secret": 6 and 16 characters from a-z and 0-9. Empty means a random one.
	Token string `json:"token"`
	// TTL is the time to live; zero means that it never expires. Mutually exclusive with Expires.
	TTL *metav1.Duration `json:"ttl,omitempty"`
	// Usages are "signing" and "authentication".
	Usages []string `json:"usages,omitempty"`
}

// APIEndpoint is the address and port of one API server.
type APIEndpoint struct {
	// AdvertiseAddress is the IP address that other machines use. Empty or
	// unspecified means the one of the default route.
	AdvertiseAddress string `json:"advertiseAddress,omitempty"`
	// BindPort is the port it listens on.
	BindPort int32 `json:"bindPort,omitempty"`
}

// NodeRegistrationOptions describe a machine as a node.
type NodeRegistrationOptions struct {
	// CRISocket is the URL of the container runtime's socket; detected if empty.
	CRISocket string `json:"criSocket,omitempty"`
	// IgnorePreflightErrors are checks whose errors count as warnings; "all" must be the only
	// entry.
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
	// ImagePullPolicy is Always, IfNotPresent or Never, for images that kubeadm pulls.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSerial false pulls images in parallel.
	ImagePullSerial *bool `json:"imagePullSerial,omitempty"`
	// KubeletExtraArgs are additional flags of the kubelet on this machine.
	KubeletExtraArgs []Arg `json:"kubeletExtraArgs,omitempty"`
	// Name is the name of the Node object; the host name if empty.
	Name string `json:"name,omitempty"`
	// Taints of the Node. Null means the default taints, an empty list none.
	Taints []corev1.Taint `json:"taints"`
}

// Patches configures the patches of manifests.
type Patches struct {
	// Directory holds files named "target[suffix][+type].ext", such as "etcd0+merge.yaml".
	Directory string `json:"directory,omitempty"`
}

// Timeouts limit the waits; empty ones have defaults.
type Timeouts struct {
	// ControlPlaneComponentHealthCheck is for the control-plane components to become healthy.
	ControlPlaneComponentHealthCheck *metav1.Duration `json:"controlPlaneComponentHealthCheck,omitempty"`
	// Discovery is for the discovery of the cluster by a joining machine.
	Discovery *metav1.Duration `json:"discovery,omitempty"`
	// EtcdAPICall is for one operation on etcd, including retries.
	EtcdAPICall *metav1.Duration `json:"etcdAPICall,omitempty"`
	// KubeletHealthCheck is for the kubelet to become healthy.
	KubeletHealthCheck *metav1.Duration `json:"kubeletHealthCheck,omitempty"`
	// KubernetesAPICall is for one operation on the API server, including retries. In reads, pauses that a busy one asks for do not count, up to four minutes.
	KubernetesAPICall *metav1.Duration `json:"kubernetesAPICall,omitempty"`
	// TLSBootstrap is for the kubelet to get its client certificate.
	TLSBootstrap *metav1.Duration `json:"tlsBootstrap,omitempty"`
	// UpgradeManifests is for a static Pod to be replaced during an upgrade.
	UpgradeManifests *metav1.Duration `json:"upgradeManifests,omitempty"`
}
