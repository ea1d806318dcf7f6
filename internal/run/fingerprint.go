package run

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
)

// fixedSettings cannot change once a run has begun: certificates and etcd's data contain them. All
// other settings may be fixed before the same command is re-run.
type fixedSettings struct {
	Name, Address              string
	Role                       node.Role
	BindPort                   int32
	Paths                      node.Paths
	Minor                      uint // of the Kubernetes version
	ClusterName, Endpoint      string
	ServiceSubnet, PodSubnet   string
	DNSDomain                  string
	SANs, ServerSANs, PeerSANs []string
	Algorithm                  pki.Algorithm
	EtcdData                   string
	ExternalEtcd               *node.ExternalEtcd
	Backup                     string `json:",omitempty"` // digest of the snapshot that is restored
}

func fixedSettingsOf(n *node.Node) fixedSettings {
	c := n.Cluster
	target, _ := release.ParseTarget(c.Version) // unknown on a joining machine
	backup := ""
	if c.Backup != nil {
		backup = c.Backup.Snapshot
	}
	return fixedSettings{
		Backup: backup, Name: n.Name, Address: n.Address, Role: n.Role, BindPort: n.BindPort, Paths: n.Paths,
		Minor: target.Minor(), ClusterName: c.Name, Endpoint: c.Endpoint,
		ServiceSubnet: c.ServiceSubnet, PodSubnet: c.PodSubnet, DNSDomain: c.DNSDomain,
		SANs: c.CertSANs, ServerSANs: c.Etcd.ServerCertSANs, PeerSANs: c.Etcd.PeerCertSANs,
		Algorithm: c.Algorithm, EtcdData: c.Etcd.DataDir, ExternalEtcd: c.Etcd.External,
	}
}

// outcome is the part of an intent that shows in the files and objects that a run creates. Tokens,
// CA pins, endpoints and ignored preflight errors do not: a run resumes although they changed.
type outcome struct {
	Name      string
	Role      node.Role
	Address   string
	BindPort  int32
	CRISocket string
	Taints    []corev1.Taint
	Args      []node.Arg
	Patches   string
	Paths     node.Paths
	Version   string // or the label, which may mean another version tomorrow
	Cluster   string // without the version
	Kubelet   *kubeletconfig.KubeletConfiguration
	KubeProxy *proxyconfig.KubeProxyConfiguration
}

func outcomeOf(n *node.Node) outcome {
	var cluster strings.Builder
	for line := range strings.Lines(n.Cluster.Document) {
		if !strings.HasPrefix(line, "kubernetesVersion:") {
			cluster.WriteString(line)
		}
	}
	return outcome{
		Name: n.Name, Role: n.Role, Address: n.Address, BindPort: n.BindPort,
		CRISocket: n.CRISocket,
		Taints:    n.Taints, Args: n.KubeletArgs, Patches: n.Patches, Paths: n.Paths,
		Version: cmp.Or(n.Cluster.VersionLabel, n.Cluster.Version),
		Cluster: cluster.String(),
		Kubelet: n.Cluster.Kubelet.Config, KubeProxy: n.Cluster.KubeProxy.Config,
	}
}

// hashSettings is a hash of the value.
func hashSettings(of any) (string, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return "", fmt.Errorf("hashing the settings of this run: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
