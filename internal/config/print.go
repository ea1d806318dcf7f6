package config

import (
	"fmt"
	"slices"

	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// Values in examples for fields without a default, for the user to replace.
const (
	exampleToken    = "abcdef.0123456789abcdef"
	exampleAddress  = "1.2.3.4"
	exampleName     = "node"
	exampleEndpoint = "kube-apiserver:6443"
)

// ExampleInit are the documents of init with all defaults, and the component configurations of the
// given kinds. Like all examples, they are pointers to structs to be encoded as YAML.
func ExampleInit(tool release.Tool, components []string) ([]any, error) {
	init := &v1beta4.InitConfiguration{
		BootstrapTokens:  []v1beta4.BootstrapToken{{Token: exampleToken}},
		LocalAPIEndpoint: v1beta4.APIEndpoint{AdvertiseAddress: exampleAddress},
		NodeRegistration: v1beta4.NodeRegistrationOptions{Name: exampleName,
			CRISocket: node.DefaultCRISocket},
	}
	cluster := &v1beta4.ClusterConfiguration{KubernetesVersion: tool.MinorVersion() + ".0"}
	init.Default()
	cluster.Default()
	kubelet, proxy := &kubeletconfig.KubeletConfiguration{}, &proxyconfig.KubeProxyConfiguration{}
	fillKubelet(kubelet, cluster)
	fillProxy(proxy, cluster, exampleAddress)
	examples := map[string]any{kindKubelet: kubelet, kindProxy: proxy}
	documents := []any{init, cluster}
	for i, kind := range components {
		example, ok := examples[kind]
		switch {
		case !ok:
			return nil, fmt.Errorf("unknown component configuration %q: use %s", kind,
				kindProxy+" or "+kindKubelet)
		case !slices.Contains(components[:i], kind):
			documents = append(documents, example)
		}
	}
	return documents, nil
}

// ExampleJoin is an example JoinConfiguration for this machine.
func ExampleJoin(hostname string, platform node.Platform) []any {
	c := &v1beta4.JoinConfiguration{
		Discovery: v1beta4.Discovery{BootstrapToken: &v1beta4.BootstrapTokenDiscovery{
			APIServerEndpoint: exampleEndpoint, Token: exampleToken, UnsafeSkipCAVerification: true,
		}},
		NodeRegistration: v1beta4.NodeRegistrationOptions{Name: normalizeName(hostname),
			CRISocket: platform.DefaultCRISocket()},
	}
	c.Default()
	c.CACertPath = platform.Clean(c.CACertPath)
	return []any{c}
}

// ExampleReset is an example ResetConfiguration for a machine of that platform.
func ExampleReset(platform node.Platform) []any {
	c := &v1beta4.ResetConfiguration{CRISocket: platform.DefaultCRISocket()}
	c.Default()
	return []any{c}
}

// ExampleUpgrade is an example UpgradeConfiguration.
func ExampleUpgrade() []any {
	c := &v1beta4.UpgradeConfiguration{}
	c.Default()
	return []any{c}
}
