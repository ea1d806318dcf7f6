package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/node"
	"kubeadm/internal/release"
)

// featureGates is the argument of every component that enables and disables features.
const featureGates = "feature-gates"

// findGateProblems lists what is wrong with the --feature-gates among the arguments of a component.
// field names the argument of that index.
func findGateProblems(component string, v *version.Version, args []node.Arg,
	field func(i int) string) (list []ComponentProblem) {
	if component == Etcd { // its gates are not known
		return nil
	}
	_, emulates := node.LastArg(args, "emulated-version")
	b := release.Binary{Component: component, Version: v, Emulates: emulates}
	for i, a := range args {
		if a.Name != featureGates {
			continue
		}
		value := a.Value
		if component == release.Kubelet { // systemd removes the quotes
			value = strings.Trim(value, `"'`)
		}
		for _, fault := range b.CheckGates(value) {
			list = append(list, ComponentProblem{ComponentArgs, field(i), *fault})
		}
	}
	return list
}

// findConfigGateProblems lists what is wrong with the featureGates of a component's configuration.
func findConfigGateProblems(b release.Binary, kind, configMap string,
	gates map[string]bool) (list []ComponentProblem) {
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if fault := b.CheckGate(name, gates[name]); fault != nil {
			fault.Hint += fmt.Sprintf(" (in an existing cluster: kubectl edit configmap %s "+
				"--namespace kube-system)", configMap)
			list = append(list, ComponentProblem{ComponentArgs, kind + " featureGates", *fault})
		}
	}
	return list
}

// FindKubeletGateProblems lists the feature gates of the cluster's KubeletConfiguration with which a
// kubelet of that version does not start, or that have no effect.
func FindKubeletGateProblems(n *node.Node, v *version.Version) []ComponentProblem {
	config := n.Cluster.Kubelet.Config
	if config == nil {
		return nil
	}
	return findConfigGateProblems(release.Binary{Component: release.Kubelet, Version: v},
		"KubeletConfiguration", KubeletConfigMap, config.FeatureGates)
}

// findProxyGateProblems is FindKubeletGateProblems for kube-proxy.
func findProxyGateProblems(n *node.Node, v *version.Version) []ComponentProblem {
	config := n.Cluster.KubeProxy.Config
	if config == nil || n.Cluster.Proxy.Disabled {
		return nil
	}
	return findConfigGateProblems(release.Binary{Component: release.Proxy, Version: v},
		"KubeProxyConfiguration", KubeProxyConfigMap, config.FeatureGates)
}

// FindKubeletFlagProblems lists the feature gates in the kubelet's environment file with which a
// kubelet of that version does not start, or that have no effect.
func FindKubeletFlagProblems(path, text string, v *version.Version) []ComponentProblem {
	var args []node.Arg
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(line, "=")
		if strings.TrimSpace(name) == KubeletFlagsVariable {
			args = parseArgs(strings.Fields(strings.Trim(strings.TrimSpace(value), `"`)))
		}
	}
	return findGateProblems(release.Kubelet, v, args, func(int) string { return path })
}

// parseArgs returns the arguments of a command line.
func parseArgs(words []string) (args []node.Arg) {
	for i, word := range words {
		bare := strings.TrimLeft(word, "-")
		if bare == word {
			continue
		}
		name, value, found := strings.Cut(bare, "=")
		if !found && i+1 < len(words) {
			value = words[i+1]
		}
		args = append(args, node.Arg{Name: name, Value: value})
	}
	return args
}

// FindGateProblems lists the feature gates that the patches set and with which a component of this
// machine does not start, or that have no effect.
func (p Patches) FindGateProblems(n *node.Node, h Host,
	kubelet *version.Version) (list []ComponentProblem, err error) {
	if h, err = predictHost(n, h); err != nil {
		return nil, err
	}
	p.unknownText = unknownMember
	if isControlPlane, _ := node.IsControlPlane(n); isControlPlane {
		for _, component := range Components() {
			found, err := p.findPodGateProblems(component, n, h)
			if err != nil {
				return nil, err
			}
			list = append(list, found...)
		}
	}
	origins := p.Origins(KubeletConfiguration)
	if len(origins) == 0 || kubelet == nil {
		return list, nil
	}
	data, _, err := KubeletConfigFile(n, h, p)
	if err != nil {
		return nil, err
	}
	var config kubeletconfig.KubeletConfiguration
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, fmt.Errorf("decoding the kubelet's configuration: %w", err)
	}
	b := release.Binary{Component: release.Kubelet, Version: kubelet}
	before := n.Cluster.Kubelet.Config.FeatureGates
	for _, name := range slices.Sorted(maps.Keys(config.FeatureGates)) {
		on := config.FeatureGates[name]
		if was, set := before[name]; set && was == on {
			continue
		}
		if fault := b.CheckGate(name, on); fault != nil {
			list = append(list, ComponentProblem{ComponentArgs,
				strings.Join(origins, " and ") + ": featureGates", *fault})
		}
	}
	return list, nil
}

// findPodGateProblems lists the problems of a patched static Pod that it does not have unpatched.
func (p Patches) findPodGateProblems(component string, n *node.Node,
	h Host) (list []ComponentProblem, err error) {
	origins := p.Origins(component)
	if len(origins) == 0 {
		return nil, nil
	}
	images, err := Images(n)
	if err != nil {
		return nil, err
	}
	field := func(int) string { return strings.Join(origins, " and ") }
	find := func(p Patches) ([]ComponentProblem, error) {
		var pod corev1.Pod
		data, err := StaticPodFile(component, n, h, p)
		if err == nil {
			err = yaml.Unmarshal(data, &pod)
		}
		if err != nil {
			return nil, err
		}
		c, err := ComponentContainer(&pod, component)
		if err != nil {
			return nil, err
		}
		return findGateProblems(component, images.Target.Version(),
			parseArgs(slices.Concat(c.Command, c.Args)), field), nil
	}
	before, err := find(Patches{})
	if err != nil {
		return nil, err
	}
	after, err := find(p)
	return slices.DeleteFunc(after, func(f ComponentProblem) bool {
		return slices.Contains(before, f)
	}), err
}
