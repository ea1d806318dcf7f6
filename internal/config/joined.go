package config

import (
	"errors"
	"fmt"

	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/strict"
)

// StoredConfig is the configuration that a cluster stores in ConfigMaps in kube-system.
type StoredConfig struct {
	Cluster   string // the ClusterConfiguration in kubeadm-config
	Kubelet   StoredComponent
	KubeProxy StoredComponent // Text is empty if the cluster has none
}

// StoredComponent is the configuration of a component as the cluster stores it.
type StoredComponent struct {
	Text      string
	Generated bool // its hash shows that it is unchanged since kubeadm generated it
}

// CompleteJoin completes the desired state of a machine with the configuration that its cluster
// stores. Unknown fields are only warnings: a newer version may have stored them.
func CompleteJoin(local node.Local, stored StoredConfig,
	tool release.Tool) (*node.Node, []string, error) {
	var warnings []string
	n := &node.Node{Local: local}
	c, err := loadCluster(n, stored.Cluster, tool, &warnings)
	if err != nil {
		return nil, warnings, err
	}
	k := &kubeletconfig.KubeletConfiguration{}
	kubelet := storedDocument{"ConfigMap kube-system/kubelet-config", stored.Kubelet.Text,
		kindKubelet}
	if err := decodeStored(kubelet, k, &warnings); err != nil {
		return nil, warnings, err
	}
	warnings = append(warnings, fillKubelet(k, c)...)
	n.Cluster.Kubelet = node.KubeletConfig{Config: k, Generated: stored.Kubelet.Generated}
	if stored.KubeProxy.Text == "" {
		return n, warnings, nil
	}
	p := &proxyconfig.KubeProxyConfiguration{}
	proxy := storedDocument{"ConfigMap kube-system/kube-proxy", stored.KubeProxy.Text, kindProxy}
	if err := decodeStored(proxy, p, &warnings); err != nil {
		return n, warnings, err
	}
	warnings = append(warnings, fillProxy(p, c, n.Address)...)
	n.Cluster.KubeProxy = node.ProxyConfig{Config: p, Generated: stored.KubeProxy.Generated}
	return n, warnings, nil
}

// CompleteMember is like CompleteJoin for a machine that is a node already: it uses only the stored
// ClusterConfiguration, and leaves the component configurations empty.
func CompleteMember(local node.Local, stored string,
	tool release.Tool) (*node.Node, []string, error) {
	var warnings []string
	n := &node.Node{Local: local}
	_, err := loadCluster(n, stored, tool, &warnings)
	return n, warnings, err
}

func loadCluster(n *node.Node, stored string, tool release.Tool,
	warnings *[]string) (*v1beta4.ClusterConfiguration, error) {
	c := &v1beta4.ClusterConfiguration{}
	if err := decodeStored(storedDocument{kubeadmConfigMap, stored, v1beta4.KindCluster}, c,
		warnings); err != nil {
		return nil, err
	}
	c.Default()
	fillCluster(c, n.BindPort)
	target, notes, err := Facts{Tool: tool}.resolveVersion(c.KubernetesVersion)
	*warnings = append(*warnings, notes...)
	if err != nil {
		return nil, fmt.Errorf("%s: kubernetesVersion: %w", kubeadmConfigMap, err)
	}
	if n.Cluster, err = newCluster(c, target); err != nil {
		return nil, fmt.Errorf("%s: %w", kubeadmConfigMap, err)
	}
	n.Paths.Certificates = c.CertificatesDir
	return c, nil
}

// storedDocument is a document that the cluster stores: its ConfigMap, text and kind.
type storedDocument struct{ source, text, kind string }

// decodeStored decodes the document of that kind.
func decodeStored(stored storedDocument, into any, warnings *[]string) error {
	source := stored.source
	documents, err := strict.Split([]byte(stored.text))
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	wrong := faults{}
	found := false
	for _, d := range documents {
		if d.Kind != stored.kind {
			continue
		}
		found = true
		if err := checkVersion(d, false); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		mismatches := (&documentTarget{kind: stored.kind, into: into}).decode(d)
		for _, i := range mismatches.Ignored {
			*warnings = append(*warnings, source+": "+i.Warning())
		}
		wrong.list = append(wrong.list, mismatches.Wrong...)
	}
	if !found {
		return errors.New(source + " has no " + stored.kind)
	}
	return wrong.err(source)
}
