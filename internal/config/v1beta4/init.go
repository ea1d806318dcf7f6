package v1beta4

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InitConfiguration is what only the run of init on this machine needs to know.
// No cluster stores it.
type InitConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// BootstrapTokens are created for nodes that will join; none given means one with all defaults.
	BootstrapTokens []BootstrapToken `json:"bootstrapTokens,omitempty"`
	// CertificateKey is the hex key (32 bytes) that encrypts uploaded certificates.
	CertificateKey string `json:"certificateKey,omitempty"`
	// DryRun only shows what would be done.
	DryRun bool `json:"dryRun,omitempty"`
	// LocalAPIEndpoint is where the API server of this machine listens.
	LocalAPIEndpoint APIEndpoint `json:"localAPIEndpoint,omitempty"`
	// NodeRegistration describes this machine as a node.
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty"`
	// Patches says where files are that change what is deployed.
	Patches *Patches `json:"patches,omitempty"`
	// SkipPhases are addresses of phases to leave out, such as "addon/kube-proxy".
	SkipPhases []string `json:"skipPhases,omitempty"`
	// Timeouts bound the waits.
	Timeouts *Timeouts `json:"timeouts,omitempty"`
}

// BootstrapToken lets machines join for a while.
type BootstrapToken struct {
	// Description tells people what the token is for.
	Description string `json:"description,omitempty"`
	// Expires is the end of the lifetime. Excludes TTL.
	Expires *metav1.Time `json:"expires,omitempty"`
	// Groups are what the bearer is a member of; all begin with "system:bootstrappers:".
	Groups []string `json:"groups,omitempty"`
	// Token is "id.secret": 6 and 16 characters out of a-z and 0-9. Empty means a random one.
	Token string `json:"token"`
	// TTL is the lifetime from creation on; zero means for ever. Excludes Expires.
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
	// CRISocket is the URL of the container runtime's socket; looked for if empty.
	CRISocket string `json:"criSocket,omitempty"`
	// IgnorePreflightErrors names checks whose errors count as warnings; "all" stands alone.
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`
	// ImagePullPolicy is Always, IfNotPresent or Never, for images pulled before the start.
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSerial false pulls images side by side.
	ImagePullSerial *bool `json:"imagePullSerial,omitempty"`
	// KubeletExtraArgs are further flags of the kubelet on this machine.
	KubeletExtraArgs []Arg `json:"kubeletExtraArgs,omitempty"`
	// Name is the name of the Node object; the host name if empty.
	Name string `json:"name,omitempty"`
	// Taints for the Node. Null means the usual ones, an empty list none.
	Taints []corev1.Taint `json:"taints"`
}

// Patches says where patch files are.
type Patches struct {
	// Directory holds files named "target[suffix][+type].ext", such as "etcd0+merge.yaml".
	Directory string `json:"directory,omitempty"`
}

// Timeouts bound the waits; absent ones take their defaults.
type Timeouts struct {
	// ControlPlaneComponentHealthCheck is for the control-plane components to become healthy.
	ControlPlaneComponentHealthCheck *metav1.Duration `json:"controlPlaneComponentHealthCheck,omitempty"`
	// Discovery is for a joining machine to find and trust the cluster.
	Discovery *metav1.Duration `json:"discovery,omitempty"`
	// EtcdAPICall is for one operation on etcd, repetitions included.
	EtcdAPICall *metav1.Duration `json:"etcdAPICall,omitempty"`
	// KubeletHealthCheck is for the kubelet to become healthy.
	KubeletHealthCheck *metav1.Duration `json:"kubeletHealthCheck,omitempty"`
	// KubernetesAPICall is for one operation on the API server, repetitions included.
	KubernetesAPICall *metav1.Duration `json:"kubernetesAPICall,omitempty"`
	// TLSBootstrap is for the kubelet to get its client certificate.
	TLSBootstrap *metav1.Duration `json:"tlsBootstrap,omitempty"`
	// UpgradeManifests is for a static Pod to be replaced during an upgrade.
	UpgradeManifests *metav1.Duration `json:"upgradeManifests,omitempty"`
}
