// Package node holds the desired state of this machine: one resolved, immutable value that every
// phase reads. It has no YAML, no flags and no side effects.
package node

import (
	"net"
	"path"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/pki"
)

// Role is the role of a machine in the cluster.
type Role string

// The two roles.
const (
	ControlPlane Role = "control-plane"
	Worker       Role = "worker"
)

// RenamedFromAnnotation is the annotation of a Node that is about to take the place of another one, whose name it has.
const RenamedFromAnnotation = "kubeadm.kubernetes.io/renamed-from"

// MovingToAnnotation is the annotation of a control plane's Node with the address to which it moves, until that is complete.
const MovingToAnnotation = "kubeadm.kubernetes.io/moving-to"

// ControlPlaneLabel is the label of the Nodes of a control plane, and the key of their taint. The
// admission plugin NodeRestriction keeps kubelets from setting it.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// DefaultCRISocket is the socket of the container runtime where none is configured or found.
const DefaultCRISocket = "unix:///var/run/containerd/containerd.sock"

// CNIConfigDir is where container runtimes look for the configuration of the Pod network.
const CNIConfigDir = "/etc/cni/net.d"

// Node is the whole desired state of this machine: the part that is known offline and the part
// that all nodes of the cluster share.
type Node struct {
	Local
	Cluster Cluster
	// BootstrapKubeconfig is the kubeconfig with which a joining machine authenticates to the
	// cluster; secret. Empty on a machine that does not join.
	BootstrapKubeconfig []byte
}

// Local is the part of the desired state that is known before the cluster is contacted.
type Local struct {
	Name     string // node name: a lower-case DNS-1123 subdomain
	Hostname string // host name of the operating system, trimmed and in lower case
	Role     Role

	Address  string // IP address this control plane advertises; empty on a worker
	BindPort int32  // port of this machine's API server

	CRISocket    string         // URL of the container runtime's socket
	Taints       []corev1.Taint // nil and empty both mean none: defaults are already set
	KubeletArgs  []Arg          // extra kubelet flags, in the user's order
	PullPolicy   corev1.PullPolicy
	PullSerially bool

	Patches        string // directory of patch files; empty for none
	CACertPath     string // where a joining worker keeps the cluster's CA
	CertificateKey string // hex key of the uploaded certificates; secret, may be empty
	UploadCerts    bool
	Tokens         []BootstrapToken // to be created by init; secret
	Discovery      Discovery        // how a joining machine finds the cluster

	IgnoredChecks IgnoredChecks // preflight checks whose errors count as warnings
	Platform      Platform
	Paths         Paths
	Timeouts      Timeouts
}

// Cluster is the part of the desired state that all nodes of a cluster share.
type Cluster struct {
	Name    string // label of the cluster in kubeconfigs
	Version string // Kubernetes version of the control plane, "v1.37.1"
	// the version label that the user gave, such as "stable-1"; empty for a version
	VersionLabel string
	Endpoint     string // shared "host:port" of the control planes; empty if there is none

	PodSubnet     string // one CIDR, or two separated by a comma; may be empty
	ServiceSubnet string // one CIDR, or two separated by a comma
	DNSDomain     string

	ImageRepository string // registry prefix of control-plane images
	CIBuild         bool   // Version is a CI build, whose images are in another registry
	FeatureGates    map[string]bool

	Algorithm    pki.Algorithm
	CertValidity time.Duration
	CAValidity   time.Duration
	CertSANs     []string // further names and addresses of the API server

	APIServer, ControllerManager, Scheduler Component
	Etcd                                    Etcd
	DNS                                     Addon
	Proxy                                   Addon

	Kubelet   KubeletConfig
	KubeProxy ProxyConfig

	Backup *Backup // that the cluster is rebuilt from; nil for a new cluster

	// Document is the ClusterConfiguration in YAML, as it is stored in the kubeadm-config
	// ConfigMap.
	Document string
}

// Backup is what a cluster that is rebuilt on other machines takes over.
type Backup struct {
	Snapshot   string // SHA-256 of the snapshot of etcd
	Endpoint   string // old "host:port" of the control planes; empty if there was none
	Encryption string // path of the API server's encryption configuration; empty if it has none
}

// Moves reports whether clients that know the old endpoint do not find the cluster there any more,
// unless they are told.
func (b *Backup) Moves(n *Node) bool { return b.Endpoint == "" || b.Endpoint != n.Cluster.Endpoint }

// Arg is one command-line argument of a component, without leading dashes.
type Arg struct{ Name, Value string }

// LastArg is the value of the last argument of that name, which is the one that takes effect.
func LastArg(args []Arg, name string) (value string, ok bool) {
	for _, a := range args {
		if a.Name == name {
			value, ok = a.Value, true
		}
	}
	return value, ok
}

// Component holds the extra arguments, volumes and variables of a control-plane component.
type Component struct {
	Args    []Arg
	Volumes []Volume
	Envs    []corev1.EnvVar
}

// Volume is a path of the host mounted into a component.
type Volume struct {
	Name, HostPath, MountPath string
	ReadOnly                  bool
	PathType                  corev1.HostPathType
}

// Etcd configures the cluster's etcd. If External is nil, each control plane runs a member.
type Etcd struct {
	ImageRepository, ImageTag    string // override the defaults when not empty
	DataDir                      string
	Args                         []Arg
	Envs                         []corev1.EnvVar
	ServerCertSANs, PeerCertSANs []string
	External                     *ExternalEtcd
}

// ExternalEtcd is an etcd cluster that kubeadm does not manage.
type ExternalEtcd struct {
	Endpoints, HTTPEndpoints  []string
	CAFile, CertFile, KeyFile string
}

// Addon is CoreDNS or kube-proxy.
type Addon struct {
	ImageRepository, ImageTag string // override the defaults when not empty
	Disabled                  bool
}

// KubeletConfig is the cluster-wide kubelet configuration, defaulted.
type KubeletConfig struct {
	Config    *kubeletconfig.KubeletConfiguration // shared: copy before changing
	Generated bool                                // no KubeletConfiguration came from the user
}

// ProxyConfig is the cluster-wide kube-proxy configuration, defaulted.
type ProxyConfig struct {
	Config    *proxyconfig.KubeProxyConfiguration // shared: copy before changing
	Generated bool                                // no KubeProxyConfiguration came from the user
	Server    string                              // the URL that kube-proxy uses; empty for the endpoint
}

// BootstrapToken is a token that init creates for joining nodes.
type BootstrapToken struct {
	ID, Secret  string // Secret must not be printed or written to disk
	Description string
	TTL         time.Duration // 0: never expires
	Expires     time.Time     // zero: TTL decides
	Usages      []string
	Groups      []string
	Random      bool // generated, not chosen by the user
}

// String is the token in the form "id.secret".
func (t BootstrapToken) String() string { return t.ID + "." + t.Secret }

// Discovery says how a joining machine discovers the cluster and authenticates to it.
type Discovery struct {
	// "host:port" that serves cluster-info; empty for discovery by file
	Endpoint                 string
	Token                    string   // "id.secret" that signs cluster-info; secret
	CACertHashes             []string // accepted "sha256:<hex>" pins
	UnsafeSkipCAVerification bool     // the user allows discovery without pins
	File                     string   // path or https URL of a discovery kubeconfig
	TLSBootstrapToken        string   // "id.secret" for the kubelet's TLS bootstrap; secret

	// ReplaceMembers are names or hexadecimal IDs of etcd members that are permanently lost: the
	// user allows a joining control plane to remove them.
	ReplaceMembers []string
}

// Timeouts limit the waits.
type Timeouts struct {
	ControlPlane  time.Duration // control-plane components becoming healthy
	Kubelet       time.Duration // kubelet answering its health check
	KubernetesAPI time.Duration // one operation on the API server, retries included
	EtcdAPI       time.Duration // one operation on etcd, retries included
	TLSBootstrap  time.Duration // kubelet obtaining its client certificate
	Discovery     time.Duration // finding and trusting the cluster
	Upgrade       time.Duration // a static Pod being replaced
}

// HasLocalEtcd reports whether this node runs an etcd member, and the reason if not.
func HasLocalEtcd(n *Node) (bool, string) {
	return n.Cluster.Etcd.External == nil, "etcd is external"
}

// IsControlPlane reports whether this machine is or becomes a control plane, and the reason if
// not.
func IsControlPlane(n *Node) (bool, string) {
	return n.Role == ControlPlane, "this machine joins as a worker"
}

// IsJoining reports whether this machine joins an existing cluster rather than creating one.
func (n *Node) IsJoining() bool { return len(n.BootstrapKubeconfig) > 0 }

// APIEndpoint is the "host:port" of this machine's own API server.
func (l *Local) APIEndpoint() string {
	return net.JoinHostPort(l.Address, strconv.Itoa(int(l.BindPort)))
}

// LocalServerURL is the URL of this machine's own API server.
func (l *Local) LocalServerURL() string { return "https://" + l.APIEndpoint() }

// ServerURL is the URL of the cluster: the control-plane endpoint, or this machine's API server if
// there is none.
func (n *Node) ServerURL() string {
	if n.Cluster.Endpoint == "" {
		return n.LocalServerURL()
	}
	return "https://" + n.Cluster.Endpoint
}

// PeerURL is where other etcd members reach this machine's member.
func (l *Local) PeerURL() string { return "https://" + net.JoinHostPort(l.Address, "2380") }

// ClientURL is where clients reach this machine's etcd member.
func (l *Local) ClientURL() string { return "https://" + net.JoinHostPort(l.Address, "2379") }

// RestoredEtcd is the directory in which the data of etcd are restored from a backup: in the file system
// of those in use, which may be a mount of its own.
func (n *Node) RestoredEtcd() string { return path.Join(n.Cluster.Etcd.DataDir, "kubeadm-restored") }

// LoopbackAddress is the loopback address of the family of the advertised address.
func (l *Local) LoopbackAddress() string {
	if ip := net.ParseIP(l.Address); ip != nil && ip.To4() == nil {
		return "::1"
	}
	return "127.0.0.1"
}

// KubeletClientCertificate is the file in which the kubelet keeps its current client certificate and
// key.
func (l Local) KubeletClientCertificate() string {
	dir := path.Join(l.Paths.Kubelet, "pki")
	if set, ok := LastArg(l.KubeletArgs, "cert-dir"); ok {
		dir = set
	}
	return path.Join(dir, "kubelet-client-current.pem")
}
