package release

import (
	_ "embed" // gates.txt
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/strict"
)

// gateList has a line for every feature gate of the supported releases: its name, the components
// that have it ("all", or one of them), and for each minor version its state, such as "36:b+". The
// program components/kubernetes/gates prints it and explains the state.
//
//go:embed gates.txt
var gateList string

// Binary is a component of one version, whose feature gates are checked.
type Binary struct {
	Component string
	Version   *version.Version
	Emulates  bool // --emulated-version is set, so that gates have the state of another version
}

// gate is a feature gate in one minor version of a component.
type gate struct {
	name        string
	exists      bool
	added, gone uint // minor versions; zero if not in the table
	stage       byte // the first letter of alpha, beta, ga or deprecated
	on, locked  bool // its default, and whether nothing else can be set
}

// CheckGates returns what is wrong with the value of --feature-gates.
func (b Binary) CheckGates(value string) (list []*ArgProblem) {
	for pair := range strings.SplitSeq(value, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		name, text, found := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		on, err := strconv.ParseBool(strings.TrimSpace(text))
		if found && b.Component != Kubelet && b.Component != Proxy {
			// Gates are those of Kubernetes, unless another component is named.
			registry, rest, named := strings.Cut(name, ":")
			switch {
			case named && registry == "kube":
				name = rest
			case named:
				continue
			}
		}
		switch {
		case !found:
			list = append(list, newArgError(suggestGateForm(pair),
				"feature gate %q has no value", pair))
		case err != nil:
			list = append(list, newArgError(fmt.Sprintf("set %s=true or %s=false", name, name),
				"the value %q of feature gate %s is not true or false", text, name))
		default:
			if fault := b.CheckGate(name, on); fault != nil {
				list = append(list, fault)
			}
		}
	}
	return list
}

// CheckGate returns what is wrong with a gate that is set, nil if nothing is, or if the gates of
// that version are not known.
func (b Binary) CheckGate(name string, on bool) *ArgProblem {
	known := isSupported(b.Version) && b.Version.PreRelease() == ""
	if !known || name == "AllAlpha" || name == "AllBeta" {
		return nil
	}
	title := fmt.Sprintf("%s %s", b.Component, b.Version)
	g := b.findGate(name)
	switch {
	case !g.exists && g.gone > 0:
		return newArgError("remove it", "%s has no feature gate %s (removed in %d.%d) and does "+
			"not start with it", title, name, major, g.gone)
	case !g.exists && g.added > 0:
		return newArgError("remove it", "%s has no feature gate %s (added in %d.%d) and does "+
			"not start with it", title, name, major, g.added)
	case !g.exists:
		remedy := "remove it"
		if near := strict.Nearest(name, b.listGates()); near != "" {
			remedy = fmt.Sprintf("did you mean %s?", near)
		}
		return newArgError(remedy, "%s has no feature gate %q and does not start with it", title,
			name)
	case b.Emulates:
		return nil
	case g.locked && g.on != on:
		return newArgError("remove it", "%s does not start with feature gate %s=%v: it is locked to "+
			"%v", title, name, on, g.on)
	case g.locked:
		return &ArgProblem{Text: fmt.Sprintf("feature gate %s has no effect: %s has locked it to %v, "+
			"and a later release will remove it", name, title, on), Hint: "remove it"}
	case g.stage == 'd':
		return &ArgProblem{Text: fmt.Sprintf("feature gate %s of %s is deprecated, and a later release "+
			"will remove it", name, title), Hint: "remove it before that release"}
	}
	return nil
}

// HasGate reports whether the component has a feature gate in its version, as far as that is known.
func (b Binary) HasGate(name string) bool {
	return name == "AllAlpha" || name == "AllBeta" || b.findGate(name).exists
}

// findGate looks a gate up for the component and its minor version.
func (b Binary) findGate(name string) (g gate) {
	for line := range strings.Lines(gateList) {
		if !strings.HasPrefix(line, name+" ") {
			continue
		}
		f := strings.Fields(line)
		if f[1] != "all" && f[1] != b.Component {
			continue
		}
		g.name = name
		for _, state := range f[2:] {
			text, settings, _ := strings.Cut(state, ":")
			minor, err := strconv.ParseUint(text, 10, 32)
			switch own := uint64(b.Version.Minor()); {
			case err != nil || settings == "":
			case minor < own:
				g.gone = uint(minor) + 1
			case minor > own && g.added == 0:
				g.added = uint(minor)
			case minor == own:
				g.exists = true
				g.stage = settings[0]
				g.on = strings.Contains(settings, "+")
				g.locked = strings.HasSuffix(settings, "!")
			}
		}
	}
	return g
}

// listGates lists the gates of the component in its version.
func (b Binary) listGates() (names []string) {
	column := fmt.Sprintf("%d:", b.Version.Minor())
	for line := range strings.Lines(gateList) {
		f := strings.Fields(line)
		if (f[1] == "all" || f[1] == b.Component) &&
			slices.ContainsFunc(f[2:], func(s string) bool { return strings.HasPrefix(s, column) }) {
			names = append(names, f[0])
		}
	}
	return names
}
