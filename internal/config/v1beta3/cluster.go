package v1beta3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config/v1beta4"
)

// ClusterConfiguration is the configuration that all nodes share.
type ClusterConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// APIServer holds extra settings of kube-apiserver.
	APIServer APIServer `json:"apiServer,omitempty"`
	// CertificatesDir is the directory of keys and certificates.
	CertificatesDir string `json:"certificatesDir,omitempty"`
	// ClusterName labels the cluster in kubeconfigs, and kube-controller-manager gets it as its --cluster-name.
	ClusterName string `json:"clusterName,omitempty"`
	// ControllerManager holds extra settings of kube-controller-manager.
	ControllerManager ControlPlaneComponent `json:"controllerManager,omitempty"`
	// ControlPlaneEndpoint is the host[:port] that all control planes share.
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint,omitempty"`
	// DNS is the CoreDNS add-on.
	DNS DNS `json:"dns,omitempty"`
	// Etcd configures the etcd of the cluster.
	Etcd Etcd `json:"etcd,omitempty"`
	// FeatureGates enable or disable kubeadm's features.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// ImageRepository is the registry prefix of images.
	ImageRepository string `json:"imageRepository,omitempty"`
	// KubernetesVersion is a version or a label.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Networking holds the subnets and the DNS domain.
	Networking v1beta4.Networking `json:"networking,omitempty"`
	// Scheduler holds extra settings of kube-scheduler.
	Scheduler ControlPlaneComponent `json:"scheduler,omitempty"`
}

// ControlPlaneComponent holds extra settings of one component.
type ControlPlaneComponent struct {
	// ExtraArgs replace default arguments of the same name.
	ExtraArgs map[string]string `json:"extraArgs,omitempty"`
	// ExtraVolumes are additional paths of the host to mount.
	ExtraVolumes []v1beta4.HostPathMount `json:"extraVolumes,omitempty"`
}

// APIServer holds extra settings of kube-apiserver.
type APIServer struct {
	ControlPlaneComponent `json:",inline"`

	// CertSANs are additional SANs of its certificate.
	CertSANs []string `json:"certSANs,omitempty"`
	// TimeoutForControlPlane limits the wait for the control plane. In v1beta4 it is in the
	// documents of the commands that wait.
	TimeoutForControlPlane *metav1.Duration `json:"timeoutForControlPlane,omitempty"`
}

// DNS is the CoreDNS add-on.
type DNS struct {
	v1beta4.ImageMeta `json:",inline"`
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
	v1beta4.ImageMeta `json:",inline"`

	// DataDir is the data directory.
	DataDir string `json:"dataDir"`
	// ExtraArgs replace default arguments of the same name.
	ExtraArgs map[string]string `json:"extraArgs,omitempty"`
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
	// KeyFile is the key of that certificate.
	KeyFile string `json:"keyFile"`
}
