package config

import (
	"errors"
	"fmt"

	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"kubeadm/internal/config/strict"
	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// Stored is what a cluster keeps for its nodes in ConfigMaps of kube-system.
type Stored struct {
	Cluster   string // the ClusterConfiguration in kubeadm-config
	Kubelet   StoredComponent
	KubeProxy StoredComponent // without Text where the cluster has none
}

// StoredComponent is the configuration of a component as the cluster keeps it.
type StoredComponent struct {
	Text      string
	Generated bool // its hash says that it is as kubeadm made it
}

// Joined completes what is known of a machine with what its cluster has stored.
// Fields that this program does not know are only warned of: a newer one may have
// stored them.
func Joined(local node.Local, stored Stored, tool release.Tool) (*node.Node, []string, error) {
	var warnings []string
	n := &node.Node{Local: local}
	c, err := loadCluster(n, stored.Cluster, tool, &warnings)
	if err != nil {
		return nil, warnings, err
	}
	if err := loadKubelet(n, stored.Kubelet, c, &warnings); err != nil {
		return nil, warnings, err
	}
	return n, warnings, loadProxy(n, stored.KubeProxy, c, &warnings)
}

// Member is Joined for a machine that is a node already: of the stored only the ClusterConfiguration counts,
// and of the configuration of components nothing is known.
func Member(local node.Local, stored string, tool release.Tool) (*node.Node, []string, error) {
	var warnings []string
	n := &node.Node{Local: local}
	_, err := loadCluster(n, stored, tool, &warnings)
	return n, warnings, err
}

func loadCluster(n *node.Node, stored string, tool release.Tool, warnings *[]string) (*v1beta4.ClusterConfiguration, error) {
	const source = "ConfigMap kube-system/kubeadm-config"
	c := &v1beta4.ClusterConfiguration{}
	if err := decodeStored(storedDocument{source, stored, v1beta4.KindCluster}, c, warnings); err != nil {
		return nil, err
	}
	c.Default()
	fillCluster(c, n.BindPort)
	target, notes, err := Facts{Tool: tool}.resolveVersion(c.KubernetesVersion)
	*warnings = append(*warnings, notes...)
	if err != nil {
		return nil, fmt.Errorf("%s: kubernetesVersion: %w", source, err)
	}
	if n.Cluster, err = newCluster(c, target); err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	n.Paths.Certificates = c.CertificatesDir
	return c, nil
}

func loadKubelet(n *node.Node, stored StoredComponent, c *v1beta4.ClusterConfiguration, warnings *[]string) error {
	k := &kubeletconfig.KubeletConfiguration{}
	if err := decodeStored(storedDocument{"ConfigMap kube-system/kubelet-config", stored.Text, kindKubelet}, k, warnings); err != nil {
		return err
	}
	*warnings = append(*warnings, fillKubelet(k, c)...)
	n.Cluster.Kubelet = node.KubeletConfig{Config: k, Generated: stored.Generated}
	return nil
}

func loadProxy(n *node.Node, stored StoredComponent, c *v1beta4.ClusterConfiguration, warnings *[]string) error {
	if stored.Text == "" {
		return nil
	}
	p := &proxyconfig.KubeProxyConfiguration{}
	if err := decodeStored(storedDocument{"ConfigMap kube-system/kube-proxy", stored.Text, kindProxy}, p, warnings); err != nil {
		return err
	}
	*warnings = append(*warnings, fillProxy(p, c, n.Address)...)
	n.Cluster.KubeProxy = node.ProxyConfig{Config: p, Generated: stored.Generated}
	return nil
}

// storedDocument is a document that the cluster keeps: where, the text it is part of, and its kind.
type storedDocument struct{ source, text, kind string }

// decodeStored reads the one document of that kind.
func decodeStored(kept storedDocument, into any, warnings *[]string) error {
	source := kept.source
	documents, err := strict.Split([]byte(kept.text))
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	wrong := faults{}
	found := false
	for _, d := range documents {
		if d.Kind != kept.kind {
			continue
		}
		found = true
		if err := checkVersion(d, false); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
		misfits := (&documentTarget{kind: kept.kind, into: into}).decode(d)
		for _, i := range misfits.Ignored {
			*warnings = append(*warnings, source+": "+i.Warning())
		}
		wrong.list = append(wrong.list, misfits.Wrong...)
	}
	if !found {
		return errors.New(source + " holds no " + kept.kind)
	}
	return wrong.err(source)
}
