package v1beta4

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterConfiguration is the configuration that all nodes share. The cluster stores it in the
// ConfigMap kube-system/kubeadm-config.
type ClusterConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// APIServer holds extra settings of kube-apiserver.
	APIServer APIServer `json:"apiServer,omitempty"`
	// CACertificateValidityPeriod is the lifetime of CAs.
	CACertificateValidityPeriod *metav1.Duration `json:"caCertificateValidityPeriod,omitempty"`
	// CertificatesDir is the directory of keys and certificates on control planes.
	CertificatesDir string `json:"certificatesDir,omitempty"`
	// CertificateValidityPeriod is the lifetime of certificates that are not CAs.
	CertificateValidityPeriod *metav1.Duration `json:"certificateValidityPeriod,omitempty"`
	// ClusterName labels the cluster in kubeconfigs, and kube-controller-manager gets it as its --cluster-name.
	ClusterName string `json:"clusterName,omitempty"`
	// ControllerManager holds extra settings of kube-controller-manager.
	ControllerManager ControlPlaneComponent `json:"controllerManager,omitempty"`
	// ControlPlaneEndpoint is the host[:port] that all control planes share.
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint,omitempty"`
	// DNS is the CoreDNS add-on.
	DNS DNS `json:"dns,omitempty"`
	// EncryptionAlgorithm is the algorithm and size of every generated key.
	EncryptionAlgorithm string `json:"encryptionAlgorithm,omitempty"`
	// Etcd configures the etcd of the cluster.
	Etcd Etcd `json:"etcd,omitempty"`
	// FeatureGates enable or disable kubeadm's features.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// ImageRepository is the registry prefix of all images without one of their own.
	ImageRepository string `json:"imageRepository,omitempty"`
	// KubernetesVersion is a version or a label such as "stable-1.37".
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Networking holds the subnets and the DNS domain.
	Networking Networking `json:"networking,omitempty"`
	// Proxy is the kube-proxy add-on.
	Proxy Proxy `json:"proxy,omitempty"`
	// Scheduler holds extra settings of kube-scheduler.
	Scheduler ControlPlaneComponent `json:"scheduler,omitempty"`
}

// Networking holds the subnets (one CIDR, or an IPv4 and an IPv6 CIDR separated by a comma) and
// the DNS domain.
type Networking struct {
	// DNSDomain is the suffix of the DNS names of Services.
	DNSDomain string `json:"dnsDomain,omitempty"`
	// PodSubnet is the subnet from which nodes get their Pod CIDRs.
	PodSubnet string `json:"podSubnet,omitempty"`
	// ServiceSubnet is the subnet from which Services get their ClusterIPs.
	ServiceSubnet string `json:"serviceSubnet,omitempty"`
}

// ControlPlaneComponent holds extra settings of one component.
type ControlPlaneComponent struct {
	// ExtraArgs replace default arguments of the same name.
	ExtraArgs []Arg `json:"extraArgs,omitempty"`
	// ExtraEnvs are additional environment variables.
	ExtraEnvs []EnvVar `json:"extraEnvs,omitempty"`
	// ExtraVolumes are additional paths of the host to mount.
	ExtraVolumes []HostPathMount `json:"extraVolumes,omitempty"`
}

// APIServer holds extra settings of kube-apiserver.
type APIServer struct {
	ControlPlaneComponent `json:",inline"`

	// CertSANs are additional SANs of its certificate.
	CertSANs []string `json:"certSANs,omitempty"`
}

// Arg is a command-line argument, its name without leading dashes.
type Arg struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// EnvVar is an environment variable.
type EnvVar struct {
	corev1.EnvVar `json:",inline"`
}

// HostPathMount is a path of the host mounted into a Pod.
type HostPathMount struct {
	// HostPath is the path on the host.
	HostPath string `json:"hostPath"`
	// MountPath is the path in the container.
	MountPath string `json:"mountPath"`
	// Name of the volume; the name of a default volume replaces that volume.
	Name string `json:"name"`
	// PathType says what must exist, or be created, on the host.
	PathType corev1.HostPathType `json:"pathType,omitempty"`
	// ReadOnly forbids writing.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// ImageMeta overrides the repository and tag of an image.
type ImageMeta struct {
	// ImageRepository replaces that of the ClusterConfiguration.
	ImageRepository string `json:"imageRepository,omitempty"`
	// ImageTag replaces the default tag for the Kubernetes version.
	ImageTag string `json:"imageTag,omitempty"`
}

// DNS is the CoreDNS add-on.
type DNS struct {
	ImageMeta `json:",inline"`

	// Disabled skips the add-on.
	Disabled bool `json:"disabled,omitempty"`
}

// Proxy is the kube-proxy add-on.
type Proxy struct {
	// Disabled skips the add-on.
	Disabled bool `json:"disabled,omitempty"`
}

// Etcd has exactly one of its fields set.
type Etcd struct {
	// External is an etcd cluster that kubeadm does not manage.
	External *ExternalEtcd `json:"external,omitempty"`
	// Local is a member on each control plane.
	Local *LocalEtcd `json:"local,omitempty"`
}

// LocalEtcd is an etcd member on each control plane.
type LocalEtcd struct {
	ImageMeta `json:",inline"`

	// DataDir is the data directory on the host.
	DataDir string `json:"dataDir"`
	// ExtraArgs replace default arguments of the same name.
	ExtraArgs []Arg `json:"extraArgs,omitempty"`
	// ExtraEnvs are additional environment variables.
	ExtraEnvs []EnvVar `json:"extraEnvs,omitempty"`
	// PeerCertSANs are additional SANs of its peer certificate.
	PeerCertSANs []string `json:"peerCertSANs,omitempty"`
	// ServerCertSANs are additional SANs of its server certificate.
	ServerCertSANs []string `json:"serverCertSANs,omitempty"`
}

// ExternalEtcd says how to connect to an external etcd cluster.
type ExternalEtcd struct {
	// CAFile is the CA that signed its certificate.
	CAFile string `json:"caFile"`
	// CertFile is the client certificate.
	CertFile string `json:"certFile"`
	// Endpoints are the client URLs of its members.
	Endpoints []string `json:"endpoints"`
	// HTTPEndpoints are URLs that serve /version; Endpoints if empty.
	HTTPEndpoints []string `json:"httpEndpoints,omitempty"`
	// KeyFile is the key of that certificate.
	KeyFile string `json:"keyFile"`
}
