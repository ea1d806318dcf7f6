package release

import (
	_ "embed" // flags.txt
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/strict"
)

// flagList has a line "component flag type" for every flag of the newest supported release,
// hidden ones included. The program components/kubernetes/flags prints it.
//
//go:embed flags.txt
var flagList string

// ArgProblem is what is wrong with an argument of a component.
type ArgProblem struct {
	Text  string
	Hint  string // what the user should do about it
	Fatal bool   // the component does not start, or does not do what was intended
}

func newArgError(remedy, format string, args ...any) *ArgProblem {
	return &ArgProblem{Text: fmt.Sprintf(format, args...), Hint: remedy, Fatal: true}
}

const whiteSpace = " \t\r\n"

// CheckArg returns what is wrong with the argument --name=value of a component of that version,
// nil if nothing is. Names are written without dashes.
func CheckArg(component string, v *version.Version, name, value string) *ArgProblem {
	bare := strings.TrimSpace(strings.TrimLeft(name, "-"))
	before, after, equals := strings.Cut(bare, "=")
	switch {
	case name == "": // every command refuses it
		return nil
	case strings.HasPrefix(name, "-"):
		return newArgError(fmt.Sprintf("use the name %q", bare),
			"argument %q must be written without leading dashes", name)
	case equals:
		// The component gets --name=value all the same. That may be what the user intended.
		kind := flagType(component, before)
		if kind == "string" || value != "" && kind != "" && expectedFormat(kind, "=") == "" {
			whole := strings.TrimSuffix(after+"="+value, "=")
			return &ArgProblem{
				Text: fmt.Sprintf("the name of argument %q contains part of its value", name),
				Hint: fmt.Sprintf("use the name %q with the value %q", before, whole)}
		}
		return newArgError(fmt.Sprintf("use the name %q with the value %q", before, after),
			"the name of argument %q contains its value", name)
	case strings.ContainsAny(name, whiteSpace):
		return newArgError("remove the white space", "the name of argument %q contains white space",
			name)
	}
	if fault := checkArgName(component, v, name); fault != nil {
		return fault
	}
	if fault := checkArgValue(component, name, value); fault != nil {
		return fault
	}
	if component == APIServer && isSupported(v) && slices.Contains([]string{"enable-admission-plugins",
		"disable-admission-plugins", "admission-control"}, name) {
		return checkAdmissionPlugins(v, value)
	}
	return nil
}

// isSupported reports whether the lists of this package are complete for components of Kubernetes of
// that version.
func isSupported(v *version.Version) bool {
	return v.Major() == major && v.Minor() >= minorReleases[0].minor &&
		v.Minor() <= minorReleases[len(minorReleases)-1].minor
}

func checkArgName(component string, v *version.Version, name string) *ArgProblem {
	if err := CheckFlag(component, v, name); err != nil {
		return newArgError(suggestReplacement(component, v, name), "%v", err)
	}
	removed := slices.ContainsFunc(flagRanges(), func(r flagRange) bool {
		return r.component == component && r.gone > 0 && r.matches(name)
	})
	allListed := isSupported(v)
	if component == Etcd {
		allListed = v.Major() == 3 && (v.Minor() == 6 || v.Minor() == 7)
	}
	if removed || !allListed || flagType(component, name) != "" {
		return nil
	}
	// The components of Kubernetes read underscores as dashes. etcd does not.
	dashed := strings.ReplaceAll(name, "_", "-")
	if component != Etcd && flagType(component, dashed) != "" {
		return &ArgProblem{
			Text: fmt.Sprintf("argument %q does not replace the argument %q that kubeadm sets",
				name, dashed),
			Hint: fmt.Sprintf("use the name %q", dashed)}
	}
	remedy := "remove it"
	if near := strict.Nearest(dashed, listFlags(component, v)); near != "" {
		remedy = fmt.Sprintf("did you mean %s?", near)
	}
	return newArgError(remedy, "%s %s has no flag --%s", component, v, name)
}

// suggestReplacement returns the remedy for a flag that was removed.
func suggestReplacement(component string, v *version.Version, name string) string {
	rest, experimental := strings.CutPrefix(name, "experimental-")
	if component != Etcd || !experimental {
		return "remove it"
	}
	gates := map[string]string{
		"compact-hash-check-enabled":        "CompactHashCheck",
		"enable-lease-checkpoint":           "LeaseCheckpoint",
		"enable-lease-checkpoint-persist":   "LeaseCheckpointPersist",
		"initial-corrupt-check":             "InitialCorruptCheck",
		"stop-grpc-service-on-defrag":       "StopGRPCServiceOnDefrag",
		"txn-mode-write-with-shared-buffer": "TxnModeWriteWithSharedBuffer",
	}
	switch gate := gates[rest]; {
	case gate != "":
		return fmt.Sprintf("remove it, or set feature-gates to %s=true", gate)
	case slices.Contains(listFlags(component, v), rest):
		return fmt.Sprintf("remove it, or rename it to %s", rest)
	}
	return "remove it"
}

// flagType is the type of a flag of the newest release, empty if there is no such flag.
func flagType(component, flag string) string {
	for line := range strings.Lines(flagList) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == component && f[1] == flag {
			return f[2]
		}
	}
	return ""
}

// listFlags lists the flags of a component of that version that the newest release has too.
func listFlags(component string, v *version.Version) (flags []string) {
	for line := range strings.Lines(flagList) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == component && CheckFlag(component, v, f[1]) == nil {
			flags = append(flags, f[1])
		}
	}
	return flags
}

// checkArgValue finds values that do not parse, and white space that is probably unintended.
func checkArgValue(component, name, value string) *ArgProblem {
	if component == Kubelet { // systemd splits its arguments, which drops white space at the end
		value = strings.TrimRight(value, whiteSpace)
	}
	kind := flagType(component, name)
	if wanted := expectedFormat(kind, value); wanted != "" {
		remedy := "correct the value"
		trimmed := strings.TrimSpace(value)
		if trimmed != value && expectedFormat(kind, trimmed) == "" {
			remedy = fmt.Sprintf("remove the white space: %q", trimmed)
		}
		return newArgError(remedy, "the value %q of argument %s is not %s", value, name, wanted)
	}
	spaced := strings.ContainsAny(value, whiteSpace)
	switch {
	case component == Kubelet && spaced && !strings.ContainsAny(value, `"'\`):
		return newArgError("remove the white space, or put the value in quotes",
			"the value of argument %s contains white space, at which systemd splits it", name)
	case strings.TrimSpace(value) != value:
		return &ArgProblem{
			Text: fmt.Sprintf("the value of argument %s begins or ends with white space, "+
				"which is part of it", name),
			Hint: "remove the white space"}
	}
	return nil
}

// expectedFormat describes what a flag of that type accepts, if it does not accept the value.
// It is empty if it does.
func expectedFormat(kind, value string) (wanted string) {
	var err error
	switch kind {
	case "bool":
		_, err = strconv.ParseBool(value)
		wanted = "true or false"
	case "int", "int8", "int16", "int32", "int64":
		_, err = strconv.ParseInt(value, 0, 64)
		wanted = "an integer"
	case "uint", "uint8", "uint16", "uint32", "uint64", "Level":
		_, err = strconv.ParseUint(value, 0, 64)
		wanted = "a non-negative integer"
	case "float32", "float64":
		_, err = strconv.ParseFloat(value, 64)
		wanted = "a number"
	case "duration":
		_, err = time.ParseDuration(value)
		wanted = "a duration such as 1h30m"
	}
	if err == nil {
		return ""
	}
	return wanted
}
