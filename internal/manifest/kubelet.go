package manifest

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/problem"
)

// KubeletFlagsVariable is the environment variable with the kubelet's flags, which its systemd
// unit expands.
const KubeletFlagsVariable = "KUBELET_KUBEADM_ARGS"

// KubeletFlags is the environment file with the kubelet's command line.
func KubeletFlags(n *node.Node) []byte {
	var ours []node.Arg
	if n.Name != n.Hostname {
		ours = append(ours, node.Arg{Name: "hostname-override", Value: n.Name})
	}
	if n.Role == node.Worker && len(n.Taints) > 0 {
		var taints []string
		for _, t := range n.Taints {
			taints = append(taints, t.ToString())
		}
		ours = append(ours, node.Arg{Name: "register-with-taints",
			Value: strings.Join(taints, ",")})
	}
	return fmt.Appendf(nil, "%s=%q\n", KubeletFlagsVariable,
		strings.Join(mergeArgs(ours, n.KubeletArgs), " "))
}

// KubeletInstanceConfig is the part of the kubelet's configuration that is specific to this
// machine.
func KubeletInstanceConfig(n *node.Node) []byte {
	return fmt.Appendf(nil, "containerRuntimeEndpoint: %q\n", n.CRISocket)
}

// resolvedConf lists the name servers that systemd-resolved uses. If it runs, /etc/resolv.conf
// points to its stub resolver on loopback, which no Pod can reach.
const resolvedConf = "/run/systemd/resolve/resolv.conf"

// KubeletConfigFile is the kubelet's configuration on this machine: the cluster-wide
// configuration, the settings for this host, the user's patches and the instance configuration,
// merged in this order. Warnings name values that do not fit the host.
func KubeletConfigFile(n *node.Node, h Host,
	p Patches) (data []byte, warnings []string, err error) {
	config := kubeletConfig(n)
	if set := config.ResolverConfig; h.SystemdResolved && set == nil {
		config.ResolverConfig = new(resolvedConf)
	} else if h.SystemdResolved && *set != resolvedConf {
		warnings = []string{fmt.Sprintf(
			"the kubelet's resolvConf is %q, but systemd-resolved is active, and its file is %q",
			*set, resolvedConf)}
	}
	if n.Platform.IsWindows() { // the cluster's configuration has the paths of Linux
		x509 := &config.Authentication.X509
		config.StaticPodPath = n.Platform.Clean(config.StaticPodPath)
		x509.ClientCAFile = n.Platform.Clean(x509.ClientCAFile)
		config.ResolverConfig = new("")
	}
	data, err = json.Marshal(config)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	if data, err = p.apply(KubeletConfiguration, data, *config); err != nil {
		return nil, nil, err
	}
	if err := checkStaticPodPath(n, config, data, p); err != nil {
		return nil, nil, err
	}
	instance := h.KubeletInstance
	if instance == nil {
		instance = KubeletInstanceConfig(n)
	}
	if instance, err = yaml.YAMLToJSON(instance); err != nil {
		return nil, nil, fmt.Errorf("reading the kubelet's instance configuration: %w", err)
	}
	if data, err = strategicpatch.StrategicMergePatch(data, instance,
		kubeletconfig.KubeletConfiguration{}); err != nil {
		return nil, nil, fmt.Errorf(
			"merging the instance configuration into the kubelet's configuration: %w", err)
	}
	if data, err = yaml.JSONToYAML(data); err != nil {
		return nil, nil, fmt.Errorf("encoding the kubelet's configuration: %w", err)
	}
	return data, warnings, nil
}

// checkStaticPodPath returns an error if patches moved the directory from which the kubelet of a control
// plane node starts its components. A worker has no static Pods of kubeadm.
func checkStaticPodPath(n *node.Node, config *kubeletconfig.KubeletConfiguration, patched []byte,
	p Patches) error {
	var after kubeletconfig.KubeletConfiguration
	if err := json.Unmarshal(patched, &after); err != nil {
		return err
	}
	if ok, _ := node.IsControlPlane(n); !ok || after.StaticPodPath == config.StaticPodPath {
		return nil
	}
	return problem.New(fmt.Errorf(
		"%s cannot be applied to %s: it changes staticPodPath from %q to %q, but the kubelet of a control plane node must start the static Pods in %s",
		strings.Join(p.Origins(KubeletConfiguration), "; "), KubeletConfiguration,
		config.StaticPodPath, after.StaticPodPath, n.Paths.Manifests()),
		"fix the patches, or set --patches to another directory")
}

// kubeletConfig is a copy of the cluster-wide configuration with apiVersion and kind.
func kubeletConfig(n *node.Node) *kubeletconfig.KubeletConfiguration {
	config := n.Cluster.Kubelet.Config.DeepCopy()
	config.TypeMeta = metav1.TypeMeta{APIVersion: kubeletconfig.SchemeGroupVersion.String(),
		Kind: "KubeletConfiguration"}
	return config
}
