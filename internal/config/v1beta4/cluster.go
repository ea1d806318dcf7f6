package v1beta4

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterConfiguration is what all nodes agree on. The cluster keeps it in the
// ConfigMap kube-system/kubeadm-config.
type ClusterConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// APIServer is what the user adds to kube-apiserver.
	APIServer APIServer `json:"apiServer,omitempty"`
	// CACertificateValidityPeriod is the lifetime of CAs.
	CACertificateValidityPeriod *metav1.Duration `json:"caCertificateValidityPeriod,omitempty"`
	// CertificatesDir is the folder of keys and certificates on control planes.
	CertificatesDir string `json:"certificatesDir,omitempty"`
	// CertificateValidityPeriod is the lifetime of certificates that are not CAs.
	CertificateValidityPeriod *metav1.Duration `json:"certificateValidityPeriod,omitempty"`
	// ClusterName labels the cluster in kubeconfigs.
	ClusterName string `json:"clusterName,omitempty"`
	// ControllerManager is what the user adds to kube-controller-manager.
	ControllerManager ControlPlaneComponent `json:"controllerManager,omitempty"`
	// ControlPlaneEndpoint is the host[:port] that all control planes share.
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint,omitempty"`
	// DNS is the CoreDNS add-on.
	DNS DNS `json:"dns,omitempty"`
	// EncryptionAlgorithm is the kind and size of every generated key.
	EncryptionAlgorithm string `json:"encryptionAlgorithm,omitempty"`
	// Etcd says where the state of the cluster lives.
	Etcd Etcd `json:"etcd,omitempty"`
	// FeatureGates switch kubeadm's own features.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// ImageRepository is the registry prefix of all images that name no other.
	ImageRepository string `json:"imageRepository,omitempty"`
	// KubernetesVersion is a version or a label such as "stable-1.37".
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Networking names the address ranges and the DNS domain.
	Networking Networking `json:"networking,omitempty"`
	// Proxy is the kube-proxy add-on.
	Proxy Proxy `json:"proxy,omitempty"`
	// Scheduler is what the user adds to kube-scheduler.
	Scheduler ControlPlaneComponent `json:"scheduler,omitempty"`
}

// Networking names address ranges (one CIDR, or an IPv4 and an IPv6 one with a
// comma between them) and the DNS domain.
type Networking struct {
	// DNSDomain ends the names of Services.
	DNSDomain string `json:"dnsDomain,omitempty"`
	// PodSubnet is where nodes get their ranges for Pods.
	PodSubnet string `json:"podSubnet,omitempty"`
	// ServiceSubnet is where Services get their addresses.
	ServiceSubnet string `json:"serviceSubnet,omitempty"`
}

// ControlPlaneComponent is what a user adds to one component.
type ControlPlaneComponent struct {
	// ExtraArgs replace built-in arguments of the same name.
	ExtraArgs []Arg `json:"extraArgs,omitempty"`
	// ExtraEnvs are further environment variables.
	ExtraEnvs []EnvVar `json:"extraEnvs,omitempty"`
	// ExtraVolumes are paths of the host that the component may see.
	ExtraVolumes []HostPathMount `json:"extraVolumes,omitempty"`
}

// APIServer is what a user adds to kube-apiserver.
type APIServer struct {
	ControlPlaneComponent `json:",inline"`

	// CertSANs are further names and addresses in its certificate.
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
	// Name of the volume; that of a built-in volume replaces it.
	Name string `json:"name"`
	// PathType says what must be there, or be made, on the host.
	PathType corev1.HostPathType `json:"pathType,omitempty"`
	// ReadOnly forbids writing.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// ImageMeta overrides where an image comes from.
type ImageMeta struct {
	// ImageRepository replaces that of the ClusterConfiguration.
	ImageRepository string `json:"imageRepository,omitempty"`
	// ImageTag replaces the tag that goes with the Kubernetes version.
	ImageTag string `json:"imageTag,omitempty"`
}

// DNS is the CoreDNS add-on.
type DNS struct {
	ImageMeta `json:",inline"`

	// Disabled leaves it out.
	Disabled bool `json:"disabled,omitempty"`
}

// Proxy is the kube-proxy add-on.
type Proxy struct {
	// Disabled leaves it out.
	Disabled bool `json:"disabled,omitempty"`
}

// Etcd has exactly one of its fields set.
type Etcd struct {
	// External is an etcd that somebody else runs.
	External *ExternalEtcd `json:"external,omitempty"`
	// Local is a member on each control plane.
	Local *LocalEtcd `json:"local,omitempty"`
}

// LocalEtcd is an etcd member on each control plane.
type LocalEtcd struct {
	ImageMeta `json:",inline"`

	// DataDir is the folder of its data on the host.
	DataDir string `json:"dataDir"`
	// ExtraArgs replace built-in arguments of the same name.
	ExtraArgs []Arg `json:"extraArgs,omitempty"`
	// ExtraEnvs are further environment variables.
	ExtraEnvs []EnvVar `json:"extraEnvs,omitempty"`
	// PeerCertSANs are further names and addresses in its peer certificate.
	PeerCertSANs []string `json:"peerCertSANs,omitempty"`
	// ServerCertSANs are further names and addresses in its server certificate.
	ServerCertSANs []string `json:"serverCertSANs,omitempty"`
}

// ExternalEtcd is how to reach an etcd that somebody else runs.
type ExternalEtcd struct {
	// CAFile is the CA that signed its certificate.
	CAFile string `json:"caFile"`
	// CertFile is the client certificate to show.
	CertFile string `json:"certFile"`
	// Endpoints are URLs of its members.
	Endpoints []string `json:"endpoints"`
	// HTTPEndpoints are URLs that tell its version; Endpoints if empty.
	HTTPEndpoints []string `json:"httpEndpoints,omitempty"`
	// KeyFile is the key of that certificate.
	KeyFile string `json:"keyFile"`
}
