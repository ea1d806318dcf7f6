package reconfiguration

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/release"
	"kubeadm/internal/staticpod"
)

// gateSettings are the feature gates that are set, for a component each.
type gateSettings map[string]map[string]bool

// TurnsGatesOff reports whether a configuration turns a feature gate off for a component of this node: one
// that is on by what the node runs with, or by default. The components that use it are changed before
// the API server then.
func TurnsGatesOff(ctx context.Context, e *engine.Env, after *node.Node) (bool, error) {
	now := gateSettings{}
	for _, component := range manifest.Components() {
		pod, err := staticpod.Read(ctx, e, after, component)
		if err != nil {
			return false, err
		}
		now[component] = parseGates(manifest.ArgumentValue(pod, "feature-gates"))
	}
	kubelet, err := ReadKubelet(ctx, e.World, after)
	if err != nil {
		return false, err
	}
	now[release.Kubelet] = kubelet.FeatureGates
	wanted := gatesOf(after)
	delete(wanted, release.Proxy) // the addons follow later
	return isGateOff(now, wanted), nil
}

// gatesOf are the gates that the configuration of a cluster sets.
func gatesOf(n *node.Node) gateSettings {
	all := gateSettings{}
	for component, c := range map[string]node.Component{release.APIServer: n.Cluster.APIServer,
		release.ControllerManager: n.Cluster.ControllerManager, release.Scheduler: n.Cluster.Scheduler} {
		value, _ := node.LastArg(c.Args, "feature-gates")
		all[component] = parseGates(value)
	}
	if n.Cluster.Kubelet.Config != nil {
		all[release.Kubelet] = n.Cluster.Kubelet.Config.FeatureGates
	}
	if n.Cluster.KubeProxy.Config != nil {
		all[release.Proxy] = n.Cluster.KubeProxy.Config.FeatureGates
	}
	return all
}

// parseGates parses the value of --feature-gates.
func parseGates(value string) map[string]bool {
	all := map[string]bool{}
	for one := range strings.SplitSeq(value, ",") {
		name, text, _ := strings.Cut(one, "=")
		if on, err := strconv.ParseBool(strings.TrimSpace(text)); err == nil {
			all[strings.TrimSpace(name)] = on
		}
	}
	return all
}

// isGateOff reports whether a gate that is on, or not set, is turned off, or one that is on is not set any
// more.
func isGateOff(now, wanted gateSettings) bool {
	for _, component := range slices.Concat(slices.Collect(maps.Keys(now)), slices.Collect(maps.Keys(wanted))) {
		if len(gatesTurnedOff(now[component], wanted[component])) > 0 {
			return true
		}
	}
	return false
}

// gatesTurnedOff returns the gates that are on, or not set, and are turned off, and those that are on and are not set any
// more.
func gatesTurnedOff(now, wanted map[string]bool) (names []string) {
	for name, on := range wanted {
		if wasOn, wasSet := now[name]; !on && (wasOn || !wasSet) {
			names = append(names, name)
		}
	}
	for name, on := range now {
		if _, isSet := wanted[name]; on && !isSet {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
