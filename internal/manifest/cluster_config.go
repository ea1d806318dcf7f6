package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// Names and keys of the ConfigMaps, in kube-system, that hold the configuration of the cluster.
const (
	KubeadmConfigMap = "kubeadm-config"
	KubeadmConfigKey = "ClusterConfiguration"
	KubeletConfigMap = "kubelet-config"
	KubeletConfigKey = "kubelet"
)

// KubeadmConfig is the ConfigMap by which nodes that join learn what all nodes agree on.
// Where one exists, only the value of KubeadmConfigKey is ours.
func KubeadmConfig(n *node.Node) *corev1.ConfigMap {
	return configMap(kubeSystem, KubeadmConfigMap, map[string]string{KubeadmConfigKey: n.Cluster.Document})
}

// KubeadmConfigAccess lets nodes and machines that join read KubeadmConfig.
func KubeadmConfigAccess() []state.Object {
	return readable{kubeSystem, "configmaps", KubeadmConfigMap, "kubeadm:nodes-kubeadm-config"}.
		access(group(TokenGroup), group(nodesGroup))
}

// KubeletConfig is the ConfigMap with the configuration of all kubelets.
func KubeletConfig(n *node.Node) (*corev1.ConfigMap, error) {
	text, err := yaml.Marshal(kubeletConfig(n))
	if err != nil {
		return nil, fmt.Errorf("encoding the kubelets' configuration: %w", err)
	}
	c := configMap(kubeSystem, KubeletConfigMap, map[string]string{KubeletConfigKey: string(text)})
	if n.Cluster.Kubelet.Generated {
		markGenerated(c)
	}
	return c, nil
}

// KubeletConfigAccess lets nodes and machines that join read KubeletConfig.
func KubeletConfigAccess() []state.Object {
	return readable{kubeSystem, "configmaps", KubeletConfigMap, "kubeadm:kubelet-config"}.
		access(group(nodesGroup), group(TokenGroup))
}

// ClusterInfo is the public ConfigMap that tells anybody where the cluster is and which
// CA it has, as admin, a kubeconfig, knows it.
func ClusterInfo(admin *pki.Kubeconfig) (*corev1.ConfigMap, error) {
	info, err := admin.ClusterInfo()
	if err != nil {
		return nil, fmt.Errorf("making the ConfigMap %s: %w", bootstrapapi.ConfigMapClusterInfo, err)
	}
	text, err := info.Encode()
	if err != nil {
		return nil, fmt.Errorf("making the ConfigMap %s: %w", bootstrapapi.ConfigMapClusterInfo, err)
	}
	return configMap(kubePublic, bootstrapapi.ConfigMapClusterInfo, map[string]string{bootstrapapi.KubeConfigKey: string(text)}), nil
}

// ClusterInfoAccess lets anybody read ClusterInfo.
func ClusterInfoAccess() []state.Object {
	return readable{kubePublic, "configmaps", bootstrapapi.ConfigMapClusterInfo, "kubeadm:bootstrap-signer-clusterinfo"}.
		access(user(anonymousUser))
}

// ControlPlaneLabels are the labels of the Node of a control plane. Its taints are those of the intent.
func ControlPlaneLabels() map[string]string {
	return map[string]string{
		"node-role.kubernetes.io/control-plane":                   "",
		"node.kubernetes.io/exclude-from-external-load-balancers": "",
	}
}
