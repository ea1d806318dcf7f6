package config

import (
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
)

// argument stands for the command's argument among the flags.
const argument flag.Name = ""

// fieldsOf are the fields that the flags of a command, and its argument, stand for.
func fieldsOf(c flag.Command) []flag.FieldOf {
	fields := flag.Fields(c)
	if c == flag.Join {
		for _, path := range []string{"discovery", "discovery.bootstrapToken.apiServerEndpoint"} {
			fields = append(fields,
				flag.FieldOf{Flag: argument,
					Field: flag.Field{Command: c, Kind: v1beta4.KindJoin, Path: path}})
		}
	}
	return fields
}

// RefuseMixed is an error if one of the given flags, named without dashes, is not allowed with
// --config. It names the fields to set instead.
func (InitFlags) RefuseMixed(given []string) error { return refuseMixed(given, flag.Init) }

// RefuseMixed is as for InitFlags.
func (JoinFlags) RefuseMixed(given []string) error { return refuseMixed(given, flag.Join) }

// RefuseMixed is as for InitFlags.
func (ResetFlags) RefuseMixed(given []string) error { return refuseMixed(given, flag.Reset) }

// RefuseMixed is as for InitFlags.
func (TokenFlags) RefuseMixed(given []string) error { return refuseMixed(given, flag.TokenCreate) }

// RefuseMixed is as for InitFlags.
func (UpgradePlanFlags) RefuseMixed(given []string) error {
	return refuseMixed(given, flag.UpgradePlan)
}

// RefuseMixed is as for InitFlags, for "upgrade apply" or "upgrade node". The commands of phases
// accept their flags beside --config.
func (UpgradeFlags) RefuseMixed(given []string, c flag.Command) error {
	return refuseMixed(given, c)
}

// RefuseMixed is as for InitFlags.
func (UpgradeDiffFlags) RefuseMixed(given []string) error {
	return refuseMixed(given, flag.UpgradeDiff)
}

func refuseMixed(given []string, c flag.Command) error {
	var names []string
	fields := fieldsOf(c)
	for _, name := range slices.Sorted(slices.Values(given)) {
		if flag.IsAllowedWithConfig(flag.Name(name)) {
			continue
		}
		text := "--" + name
		if i := slices.IndexFunc(fields,
			func(f flag.FieldOf) bool { return string(f.Flag) == name }); i >= 0 {
			text += fmt.Sprintf(" (%s %s)", fields[i].Kind, fields[i].Path)
		}
		names = append(names, text)
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("not allowed with --config: %s: set the fields in the file instead",
		strings.Join(names, ", "))
}

// speaker returns how errors name a field: by its flag, or by kind and path. With a file, only the
// flags that were set as well are named.
func speaker(file File, common Common, c flag.Command) func(kind, path string) string {
	fields := fieldsOf(c)
	return func(kind, path string) string {
		i := slices.IndexFunc(fields, func(f flag.FieldOf) bool {
			rest, found := strings.CutPrefix(path, f.Path) // or an element of the field's list
			return f.Kind == kind && found && (rest == "" || rest[0] == '[')
		})
		switch {
		case i < 0, file.Given() && (fields[i].Flag != flag.NodeName || common.NodeName == ""):
			return kind + " " + path
		case fields[i].Flag == argument:
			return "argument HOST:PORT"
		}
		return "--" + string(fields[i].Flag)
	}
}
