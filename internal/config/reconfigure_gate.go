package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
	"kubeadm/internal/release"
)

// gateComponents are the components that have feature gates, in the order in which gates are turned on.
func gateComponents() []string {
	return []string{release.APIServer, release.ControllerManager, release.Scheduler, release.Kubelet, release.Proxy}
}

// gateSetting is a value of --feature-gate.
type gateSetting struct {
	text       string // as the user wrote it
	name       string
	value      string   // "true" or "false"; empty to remove it
	components []string // that have the gate
	found      bool     // one of them has the setting that is to be removed
}

// FirstOfGates returns the flags of the first of two changes, between which all nodes follow: a feature gate
// is turned on in all API servers before another component uses it, and turned off, or no longer set, the
// other way around. isOff reports whether a component has the gate set to false: to remove that counts as turning it on,
// as it may be on by default. A gate that the user sets on one component is not ordered. onNodes is set if a gate is
// turned off that kubelets or kube-proxy have, and so every node.
func (f ReconfigureFlags) FirstOfGates(version string, isOff func(gate string) bool) (first ReconfigureFlags,
	onNodes bool, err error) {
	first, first.FeatureGates = f, nil
	target, err := release.ParseTarget(version)
	if err != nil {
		return first, false, err
	}
	has := func(component, name string, on bool) bool {
		b := release.Binary{Component: component, Version: target.Version()}
		return b.HasGate(name) || b.CheckGate(name, on) == nil
	}
	for _, text := range f.FeatureGates {
		name, value, hasValue := strings.Cut(text, "=")
		on, _ := strconv.ParseBool(value)
		name, _ = strings.CutSuffix(name, "-")
		on = on || !hasValue && isOff(name)
		if strings.Contains(name, ":") || hasValue && !has(release.APIServer, name, on) {
			first.FeatureGates = append(first.FeatureGates, text)
			continue
		}
		for _, component := range gateComponents() {
			if (component == release.APIServer) == on && (!hasValue || has(component, name, on)) {
				first.FeatureGates = append(first.FeatureGates, component+":"+text)
			}
		}
		onNodes = onNodes || !on && (has(release.Kubelet, name, on) || has(release.Proxy, name, on))
	}
	return first, onNodes, nil
}

// gateSettings parses the values of --feature-gate, and finds out which components have the gates.
func (f ReconfigureFlags) gateSettings(target release.Target, wrong *faults) (all []*gateSetting) {
	for _, text := range f.FeatureGates {
		g := &gateSetting{text: text, components: gateComponents()}
		name, value, hasValue := strings.Cut(text, "=")
		if component, rest, ok := strings.Cut(name, ":"); ok {
			if !slices.Contains(gateComponents(), component) {
				wrong.add("--%s %q: the component must be one of %s", flag.FeatureGate, text,
					strings.Join(gateComponents(), ", "))
				continue
			}
			g.components, name = []string{component}, rest
		}
		bare, isRemoval := strings.CutSuffix(name, "-")
		on, err := strconv.ParseBool(value)
		switch {
		case hasValue && err == nil && name != "":
			g.name, g.value = name, strconv.FormatBool(on)
		case !hasValue && isRemoval && bare != "":
			g.name = bare // whether the version has it does not matter
			all = append(all, g)
			continue
		default:
			wrong.add("--%s %q: it must be NAME=true, NAME=false, or NAME- to remove the setting, optionally after COMPONENT:",
				flag.FeatureGate, text)
			continue
		}
		var fault *release.ArgProblem
		g.components = slices.DeleteFunc(g.components, func(component string) bool {
			b := release.Binary{Component: component, Version: target.Version()}
			if b.HasGate(g.name) {
				return false
			}
			if fault == nil {
				fault = b.CheckGate(g.name, on)
			}
			return fault != nil
		})
		if len(g.components) == 0 {
			wrong.add("--%s %q: %s: %s", flag.FeatureGate, text, fault.Text, fault.Hint)
			continue
		}
		all = append(all, g)
	}
	return all
}

// setGateArgs changes the arguments of the control plane components.
func setGateArgs(c *v1beta4.ClusterConfiguration, gates []*gateSetting, wrong *faults) {
	const argument = "feature-gates"
	for _, g := range gates {
		for _, component := range g.components {
			args := argsOf(c, component)
			if args == nil {
				continue // a component with a configuration of its own
			}
			rest := withoutArg(*args, argument)
			if len(*args)-len(rest) > 1 {
				wrong.add("--%s %q: %s of %s is set several times: change it in a file for --%s", flag.FeatureGate,
					g.text, argument, component, flag.Config)
				continue
			}
			i := slices.IndexFunc(*args, func(a v1beta4.Arg) bool { return a.Name == argument })
			switch {
			case i < 0 && g.value != "":
				*args = append(*args, v1beta4.Arg{Name: argument, Value: g.name + "=" + g.value})
			case i >= 0:
				if (*args)[i].Value = g.editList((*args)[i].Value); (*args)[i].Value == "" {
					*args = rest
				}
			}
		}
	}
}

// editList changes the setting in a value of --feature-gates.
func (g *gateSetting) editList(value string) string {
	var kept []string
	for one := range strings.SplitSeq(value, ",") {
		name, _, _ := strings.Cut(one, "=")
		if strings.TrimPrefix(strings.TrimSpace(name), "kube:") == g.name {
			g.found = true
		} else if strings.TrimSpace(one) != "" {
			kept = append(kept, one)
		}
	}
	if g.value != "" {
		kept = append(kept, g.name+"="+g.value)
	}
	return strings.Join(kept, ",")
}

// setComponentGates changes the configurations of the kubelets, and of kube-proxy if that is managed.
func (s *StoredConfig) setComponentGates(hasProxy bool, gates []*gateSetting) error {
	err := s.Kubelet.setGates(release.Kubelet, gates)
	if err == nil && hasProxy {
		err = s.KubeProxy.setGates(release.Proxy, gates)
	}
	return err
}

// warnAboutUnsetGates warns of gates that are to be removed and are not set.
func warnAboutUnsetGates(gates []*gateSetting) (warnings []string) {
	for _, g := range gates {
		if g.value == "" && !g.found {
			warnings = append(warnings, fmt.Sprintf("--%s %q: no component sets the feature gate", flag.FeatureGate, g.text))
		}
	}
	return warnings
}

// setGates changes the gates in the stored configuration of a component, and keeps everything else that is
// in it. A configuration that changes counts as one of the user.
func (s *StoredComponent) setGates(component string, gates []*gateSetting) error {
	if s.Text == "" {
		return nil
	}
	var document map[string]any
	if err := yaml.Unmarshal([]byte(s.Text), &document); err != nil {
		return fmt.Errorf("decoding the configuration of %s: %w", component, err)
	}
	set, _ := document["featureGates"].(map[string]any)
	if set == nil {
		set = map[string]any{}
	}
	changed := false
	for _, g := range gates {
		if !slices.Contains(g.components, component) {
			continue
		}
		now, isSet := set[g.name]
		g.found = g.found || isSet
		switch {
		case g.value == "" && isSet:
			delete(set, g.name)
		case g.value != "" && (!isSet || fmt.Sprint(now) != g.value):
			set[g.name] = g.value == "true"
		default:
			continue
		}
		changed = true
	}
	if !changed {
		return nil
	}
	if document["featureGates"] = set; len(set) == 0 {
		delete(document, "featureGates")
	}
	text, err := yaml.Marshal(document)
	if err != nil {
		return fmt.Errorf("encoding the configuration of %s: %w", component, err)
	}
	s.Text, s.Generated = string(text), false
	return nil
}
