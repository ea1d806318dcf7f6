package upgrade

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
)

// ComponentConfig is the version of a component's configuration that the cluster stores.
type ComponentConfig struct {
	Group            string `json:"group"`
	CurrentVersion   string `json:"currentVersion"` // empty if the cluster stores none
	PreferredVersion string `json:"preferredVersion"`
	// ManualUpgradeRequired says that users changed the configuration and that this program cannot
	// read its version. One that kubeadm generated is generated again instead.
	ManualUpgradeRequired bool `json:"manualUpgradeRequired"`
}

// componentConfigs are those of kube-proxy, which a cluster may lack, and of the kubelet. Their feature
// gates are added to the cluster's configuration.
func (r reader) componentConfigs(ctx context.Context, c *node.Cluster) ([]ComponentConfig, error) {
	proxy, proxyGates, err := r.componentConfig(ctx, manifest.KubeProxyConfigMap, manifest.KubeProxyConfigKey,
		proxyconfig.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	kubelet, kubeletGates, err := r.componentConfig(ctx, manifest.KubeletConfigMap, manifest.KubeletConfigKey,
		kubeletconfig.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	if kubelet.CurrentVersion == "" {
		return nil, problem.New(fmt.Errorf("ConfigMap kube-system/%s has no KubeletConfiguration",
			manifest.KubeletConfigMap),
			"re-create it: kubeadm init phase upload-config kubelet --config FILE")
	}
	c.KubeProxy.Config = &proxyconfig.KubeProxyConfiguration{FeatureGates: proxyGates}
	c.Kubelet.Config = &kubeletconfig.KubeletConfiguration{FeatureGates: kubeletGates}
	return []ComponentConfig{proxy, kubelet}, nil
}

func (r reader) componentConfig(
	ctx context.Context, name, key string, preferred schema.GroupVersion,
) (c ComponentConfig, gates map[string]bool, err error) {
	c = ComponentConfig{Group: preferred.Group, PreferredVersion: preferred.Version}
	found, err := r.configMap(ctx, name)
	if found == nil || err != nil {
		return c, nil, err
	}
	for document := range strings.SplitSeq("\n"+found.Data[key], "\n---") {
		var head struct {
			APIVersion   string          `json:"apiVersion"`
			FeatureGates map[string]bool `json:"featureGates"`
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			return c, nil, fmt.Errorf("ConfigMap kube-system/%s: %s is not YAML: %w", name, key, err)
		}
		if group, v, _ := strings.Cut(head.APIVersion, "/"); group == preferred.Group {
			c.CurrentVersion, gates = v, head.FeatureGates
		}
	}
	isCurrent := c.CurrentVersion == "" || c.CurrentVersion == c.PreferredVersion
	c.ManualUpgradeRequired = !isCurrent && !manifest.IsGenerated(found)
	return c, gates, nil
}
