package release

import (
	_ "embed" // flags.txt
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/config/strict"
)

// flagList has a line "component flag type" for every flag of the newest known release,
// hidden ones too. The program components/kubernetes/flags prints it.
//
//go:embed flags.txt
var flagList string

// ArgFault is what is wrong with an argument of a component.
type ArgFault struct {
	Text   string
	Remedy string // the next step
	Fatal  bool   // the component does not start, or does something else than was meant
}

func fatal(remedy, format string, args ...any) *ArgFault {
	return &ArgFault{Text: fmt.Sprintf(format, args...), Remedy: remedy, Fatal: true}
}

func doubt(remedy, format string, args ...any) *ArgFault {
	return &ArgFault{Text: fmt.Sprintf(format, args...), Remedy: remedy}
}

const whiteSpace = " \t\r\n"

// CheckArg returns what is wrong with the argument --name=value of a component of that version,
// nil if nothing is. Names are written without dashes.
func CheckArg(component string, v *version.Version, name, value string) *ArgFault {
	bare := strings.TrimSpace(strings.TrimLeft(name, "-"))
	before, after, equals := strings.Cut(bare, "=")
	switch {
	case name == "": // which every command refuses
		return nil
	case strings.HasPrefix(name, "-"):
		return fatal(fmt.Sprintf("name it %q", bare),
			"argument %q must be written without leading dashes", name)
	case equals && mayHold(kindOf(component, before), value):
		whole := strings.TrimSuffix(after+"="+value, "=")
		return doubt(fmt.Sprintf("name it %q, with the value %q", before, whole),
			"the name of argument %q holds a part of its value", name)
	case equals:
		return fatal(fmt.Sprintf("name it %q, with the value %q", before, after),
			"argument %q holds its value in its name", name)
	case strings.ContainsAny(name, whiteSpace):
		return fatal("write the name alone", "the name of argument %q contains white space", name)
	}
	if fault := checkName(component, v, name); fault != nil {
		return fault
	}
	return checkValue(component, name, value)
}

func checkName(component string, v *version.Version, name string) *ArgFault {
	if err := LacksFlag(component, v, name); err != nil {
		return fatal(successor(component, v, name), "%v", err)
	}
	if !hasAllFlags(component, v) || kindOf(component, name) != "" || gone(component, name) {
		return nil
	}
	// The components of Kubernetes read underscores as dashes. etcd does not.
	dashed := strings.ReplaceAll(name, "_", "-")
	if component != Etcd && kindOf(component, dashed) != "" {
		return doubt(fmt.Sprintf("name it %q", dashed),
			"argument %q does not take the place of what kubeadm sets as %q", name, dashed)
	}
	remedy := "delete it"
	if near := strict.Nearest(dashed, flagsOf(component, v)); near != "" {
		remedy = fmt.Sprintf("did you mean %s?", near)
	}
	return fatal(remedy, "%s %s does not know --%s", component, v, name)
}

// successor says what has taken the place of a flag that is gone.
func successor(component string, v *version.Version, name string) string {
	rest, experimental := strings.CutPrefix(name, "experimental-")
	if component != Etcd || !experimental {
		return "delete it"
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
		return fmt.Sprintf("delete it, or set feature-gates to %s=true", gate)
	case slices.Contains(flagsOf(component, v), rest):
		return fmt.Sprintf("delete it, or name it %s", rest)
	}
	return "delete it"
}

// hasAllFlags reports whether all flags of that version are known, rather than some.
func hasAllFlags(component string, v *version.Version) bool {
	if component == Etcd {
		return v.Major() == 3 && (v.Minor() == 6 || v.Minor() == 7)
	}
	all := lines()
	return v.Major() == major && v.Minor() >= all[0].minor && v.Minor() <= all[len(all)-1].minor
}

// kindOf is the type of a flag of the newest release, empty if there is no such flag.
func kindOf(component, flag string) string {
	for line := range strings.Lines(flagList) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == component && f[1] == flag {
			return f[2]
		}
	}
	return ""
}

// gone reports whether older releases had the flag.
func gone(component, flag string) bool {
	return slices.ContainsFunc(spans(), func(s span) bool {
		return s.component == component && s.gone > 0 && s.covers(flag)
	})
}

// flagsOf lists the flags of a component of that version that the newest release has too.
func flagsOf(component string, v *version.Version) (flags []string) {
	for line := range strings.Lines(flagList) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == component && LacksFlag(component, v, f[1]) == nil {
			flags = append(flags, f[1])
		}
	}
	return flags
}

// mayHold reports whether a flag of that type may be given the rest of its name, an equals
// sign and the value.
func mayHold(kind, value string) bool {
	return kind == "string" || value != "" && kind != "" && misread(kind, "=") == ""
}

// checkValue finds values that cannot be read, and white space that was hardly meant.
func checkValue(component, name, value string) *ArgFault {
	if component == Kubelet { // systemd splits its arguments, so that white space at the end vanishes
		value = strings.TrimRight(value, whiteSpace)
	}
	kind := kindOf(component, name)
	if wanted := misread(kind, value); wanted != "" {
		remedy := "correct the value"
		trimmed := strings.TrimSpace(value)
		if trimmed != value && misread(kind, trimmed) == "" {
			remedy = fmt.Sprintf("write %q, without white space", trimmed)
		}
		return fatal(remedy, "the value %q of argument %s is not %s", value, name, wanted)
	}
	spaced := strings.ContainsAny(value, whiteSpace)
	switch {
	case component == Kubelet && spaced && !strings.ContainsAny(value, `"'\`):
		return fatal("write it without white space, or in quotes",
			"the value of argument %s contains white space, at which systemd splits it", name)
	case strings.TrimSpace(value) != value:
		return doubt("write it without",
			"the value of argument %s begins or ends with white space, which counts", name)
	}
	return nil
}

// misread is what a value should be if a flag of that type cannot read it, else empty.
func misread(kind, value string) (wanted string) {
	var err error
	switch kind {
	case "bool":
		_, err = strconv.ParseBool(value)
		wanted = "true or false"
	case "int", "int8", "int16", "int32", "int64":
		_, err = strconv.ParseInt(value, 0, 64)
		wanted = "a whole number"
	case "uint", "uint8", "uint16", "uint32", "uint64", "Level":
		_, err = strconv.ParseUint(value, 0, 64)
		wanted = "a whole number from 0 on"
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
