package manifest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/pki"
)

// Names and keys of the ConfigMaps, in kube-system, that hold the configuration of the cluster.
const (
	KubeadmConfigMap = "kubeadm-config"
	KubeadmConfigKey = "ClusterConfiguration"
	KubeletConfigMap = "kubelet-config"
	KubeletConfigKey = "kubelet"
)

// KubeadmConfig is the ConfigMap from which joining nodes read the ClusterConfiguration.
// In an existing ConfigMap, only the value of KubeadmConfigKey is written.
func KubeadmConfig(n *node.Node) *corev1.ConfigMap {
	return configMap(kubeSystem, KubeadmConfigMap,
		map[string]string{KubeadmConfigKey: n.Cluster.Document})
}

// KubeletConfig is the ConfigMap with the cluster-wide kubelet configuration.
func KubeletConfig(n *node.Node) (*corev1.ConfigMap, error) {
	text, err := yaml.Marshal(kubeletConfig(n))
	if err != nil {
		return nil, fmt.Errorf("encoding the kubelet configuration: %w", err)
	}
	c := configMap(kubeSystem, KubeletConfigMap, map[string]string{KubeletConfigKey: string(text)})
	if n.Cluster.Kubelet.Generated {
		c.Annotations = map[string]string{hashAnnotation: dataHash(c)}
	}
	return c, nil
}

// ClusterInfo is the public ConfigMap with the API server's URL and the cluster CA, both taken
// from the kubeconfig admin.
func ClusterInfo(admin *pki.Kubeconfig) (*corev1.ConfigMap, error) {
	info, err := admin.ClusterInfo()
	if err != nil {
		return nil, fmt.Errorf("creating the ConfigMap %s: %w", bootstrapapi.ConfigMapClusterInfo,
			err)
	}
	text, err := info.Encode()
	if err != nil {
		return nil, fmt.Errorf("creating the ConfigMap %s: %w", bootstrapapi.ConfigMapClusterInfo,
			err)
	}
	return configMap(kubePublic, bootstrapapi.ConfigMapClusterInfo,
		map[string]string{bootstrapapi.KubeConfigKey: string(text)}), nil
}
