package release

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// RootlessControlPlane runs each static Pod as a user of its own.
const RootlessControlPlane = "RootlessControlPlane"

// FeatureGate is a feature gate of kubeadm.
type FeatureGate struct {
	Name    string
	Default bool
}

// FeatureGates lists the gates that can be set, by name.
func FeatureGates() []FeatureGate {
	return []FeatureGate{{Name: RootlessControlPlane, Default: false}}
}

// ParseFeatureGates reads "A=true,B=false"; the values are those of strconv.ParseBool.
// An empty text sets nothing.
func ParseFeatureGates(text string) (map[string]bool, error) {
	gates := map[string]bool{}
	for _, pair := range strings.Split(text, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		if !found {
			return nil, fmt.Errorf("feature gate %q has no value: %s", pair, suggestGateForm(pair))
		}
		name = strings.TrimSpace(name)
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("feature gate %s: value %q must be true or false", name, value)
		}
		gates[name] = on
	}
	if unknown := CheckFeatureGates(gates); len(unknown) > 0 {
		return nil, unknown[0]
	}
	return gates, nil
}

// CheckFeatureGates returns, sorted by name, one error per gate that cannot be set.
func CheckFeatureGates(gates map[string]bool) []error {
	removedIn := map[string]string{
		"ControlPlaneKubeletLocalMode":     "1.36",
		"NodeLocalCRISocket":               "1.37",
		"PublicKeysECDSA":                  "1.37",
		"WaitForAllControlPlaneComponents": "1.35",
	}
	var names []string
	for _, g := range FeatureGates() {
		names = append(names, g.Name)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if slices.Contains(names, name) {
			continue
		}
		if in, removed := removedIn[name]; removed {
			errs = append(errs, fmt.Errorf(
				"feature gate %s was removed in %s: remove it from the configuration", name, in))
			continue
		}
		errs = append(errs, fmt.Errorf("unknown feature gate %q: the feature gates are %s", name,
			strings.Join(names, ", ")))
	}
	return errs
}

// IsFeatureGateEnabled reports whether the gate is on: as set, else by its default.
func IsFeatureGateEnabled(gates map[string]bool, name string) bool {
	if on, set := gates[name]; set {
		return on
	}
	return slices.Contains(FeatureGates(), FeatureGate{Name: name, Default: true})
}

// suggestGateForm is the remedy for a gate without "=", such as X or X:true.
func suggestGateForm(pair string) string {
	for _, separator := range []string{":", " "} {
		name, text, found := strings.Cut(pair, separator)
		on, err := strconv.ParseBool(strings.TrimSpace(text))
		if found && err == nil {
			return fmt.Sprintf("set %s=%v", strings.TrimSpace(name), on)
		}
	}
	if strings.ContainsAny(pair, ": \t") {
		return "set it in the form NAME=true or NAME=false"
	}
	return fmt.Sprintf("set %s=true or %s=false", pair, pair)
}
