// Command gates adds the feature gates of one Kubernetes release to a table of them, and prints the
// table. internal/release has it as gates.txt.
//
// A line has the gate, the components that have it, and its state in each minor version: the first
// letter of its stage (alpha, beta, GA as g, deprecated), its default as + or -, and ! if that
// cannot be changed. It is compiled with the module file of a release, from the directory
// components/kubernetes:
//
//	go run -modfile=v1.37.mod ./gates 1.37 ../../internal/release/gates.txt
package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	cloudfeatures "k8s.io/controller-manager/pkg/features"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates that all components have
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gates MINOR TABLE")
		os.Exit(2)
	}
	if err := printTable(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "gates:", err)
		os.Exit(1)
	}
}

// printTable prints the table with the column of the minor version replaced.
func printTable(minor, file string) error {
	v, err := version.ParseMajorMinor(minor)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	column := fmt.Sprintf("%d:", v.Minor())
	rows := map[string][]string{}
	for line := range strings.Lines(string(old)) {
		words := strings.Fields(line)
		key := strings.Join(words[:2], " ")
		rows[key] = slices.DeleteFunc(words[2:], func(state string) bool {
			return strings.HasPrefix(state, column)
		})
	}
	if err := addGates(rows, v); err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if states := rows[key]; len(states) > 0 {
			slices.Sort(states)
			fmt.Println(key, strings.Join(states, " "))
		}
	}
	return nil
}

// addGates adds the gates of the linked release to the rows. Those of cloud controllers are
// registered by the controller manager alone.
func addGates(rows map[string][]string, v *version.Version) error {
	all := utilfeature.DefaultMutableFeatureGate
	for _, add := range []func(featuregate.MutableVersionedFeatureGate) error{
		logsapiGates, metricsGates,
	} {
		if err := add(all); err != nil {
			return err
		}
	}
	common := all.GetAllVersioned()
	cloud := featuregate.NewVersionedFeatureGate(v)
	if err := cloudfeatures.SetupCurrentKubernetesSpecificFeatureGates(cloud); err != nil {
		return err
	}
	note := func(components, name string, specs featuregate.VersionedSpecs) {
		state, found := stateAt(specs, v)
		if !found || name == "AllAlpha" || name == "AllBeta" {
			return
		}
		key := name + " " + components
		rows[key] = append(rows[key], fmt.Sprintf("%d:%s", v.Minor(), state))
	}
	for name, specs := range common {
		note("all", string(name), specs)
	}
	for name, specs := range cloud.GetAllVersioned() {
		if _, isCommon := common[name]; !isCommon {
			note("kube-controller-manager", string(name), specs)
		}
	}
	return nil
}

func logsapiGates(g featuregate.MutableVersionedFeatureGate) error { return logsapi.AddFeatureGates(g) }

func metricsGates(g featuregate.MutableVersionedFeatureGate) error {
	return metricsfeatures.AddFeatureGates(g)
}

// stateAt is the state of a gate in a version.
func stateAt(specs featuregate.VersionedSpecs, v *version.Version) (state string, found bool) {
	for _, s := range specs { // sorted by version
		if s.Version != nil && s.Version.GreaterThan(v) ||
			minCompatibility(s).GreaterThan(v.SubtractMinor(1)) {
			continue
		}
		stage := "a"
		switch s.PreRelease {
		case featuregate.Beta:
			stage = "b"
		case featuregate.GA:
			stage = "g"
		case featuregate.Deprecated:
			stage = "d"
		}
		state = stage + map[bool]string{true: "+", false: "-"}[s.Default]
		if s.LockToDefault {
			state += "!"
		}
		found = true
	}
	return state, found
}

// minCompatibility is the field MinCompatibilityVersion, which 1.34 does not have; version 0 if it is
// not set.
func minCompatibility(s featuregate.FeatureSpec) *version.Version {
	field := reflect.ValueOf(s).FieldByName("MinCompatibilityVersion")
	if !field.IsValid() || field.IsNil() {
		return version.MajorMinor(0, 0)
	}
	return field.Interface().(*version.Version)
}
