package cli

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubeadm/internal/flag"
)

// flagTargets has a pointer to the value of each flag. The value at first is the default.
type flagTargets map[flag.Name]any

// targetsOf has the fields of a struct, and of those embedded in it, whose tag names a flag.
func targetsOf(options any) flagTargets {
	v := flagTargets{}
	var add func(reflect.Value)
	add = func(s reflect.Value) {
		for i := range s.NumField() {
			field := s.Type().Field(i)
			switch name := field.Tag.Get("flag"); {
			case name != "":
				v[flag.Name(name)] = s.Field(i).Addr().Interface()
			case field.Anonymous && field.Type.Kind() == reflect.Struct:
				add(s.Field(i))
			}
		}
	}
	add(reflect.ValueOf(options).Elem())
	return v
}

// without has the other flags.
func (v flagTargets) without(names ...flag.Name) flagTargets {
	others := maps.Clone(v)
	maps.DeleteFunc(others, func(n flag.Name, _ any) bool { return slices.Contains(names, n) })
	return others
}

// bind defines the named flags, or all of them.
func (v flagTargets) bind(set *pflag.FlagSet, names ...flag.Name) {
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(v))
	}
	for _, n := range names {
		f, name := flag.Of(n), string(n)
		switch at := v[n].(type) {
		case *string:
			set.StringVarP(at, name, f.Short, *at, f.Help)
		case *[]string:
			set.StringSliceVarP(at, name, f.Short, *at, f.Help)
		case *flag.TextList:
			set.StringArrayVarP((*[]string)(at), name, f.Short, *at, f.Help)
		case *map[string]string:
			set.StringToStringVarP(at, name, f.Short, *at, f.Help)
		case *bool:
			set.BoolVarP(at, name, f.Short, *at, f.Help)
		case **bool:
			set.VarPF(optional{at}, name, f.Short, f.Help).NoOptDefVal = "true"
		case *int:
			set.IntVarP(at, name, f.Short, *at, f.Help)
		case *int32:
			set.Int32VarP(at, name, f.Short, *at, f.Help)
		case **int32:
			set.VarP(optionalNumber{at}, name, f.Short, f.Help)
		case *time.Duration:
			set.DurationVarP(at, name, f.Short, *at, f.Help)
		case **time.Duration:
			set.VarP(period{at}, name, f.Short, f.Help)
		default:
			panic(fmt.Sprintf("cli: --%s has no place for its value", name))
		}
		switch shown, _ := pflag.UnquoteUsage(set.Lookup(name)); {
		case shown == "stringToString":
			bound := set.Lookup(name)
			bound.Value, bound.DefValue = stringMap{bound.Value}, ""
		case shown != f.Type && f.Type != "bool" && !strings.Contains(f.Help, "`"):
			panic(fmt.Sprintf("cli: --%s has a value of type %s, not %s", name, shown,
				f.Type))
		}
		if f.Deprecated != "" {
			_ = set.MarkHidden(name) // fails only for a flag that does not exist
		}
	}
}

// bindOf defines flags with the help that they have in this command.
func (v flagTargets) bindOf(command flag.Command, set *pflag.FlagSet, names ...flag.Name) {
	v.bind(set, names...)
	set.VisitAll(func(f *pflag.Flag) {
		if help, ok := flag.Of(flag.Name(f.Name)).HelpOf[command]; ok {
			f.Usage = help
		}
	})
}

// stringMap is the library's map value with the name that kubectl has for its type.
type stringMap struct{ pflag.Value }

func (stringMap) Type() string { return "mapStringString" }

// optional is a boolean flag that is nil if it was not set.
type optional struct{ at **bool }

func (o optional) String() string {
	return strconv.FormatBool(o.at != nil && *o.at != nil && **o.at)
}

func (o optional) Type() string { return "bool" }

func (o optional) Set(text string) error {
	b, err := strconv.ParseBool(text)
	if err == nil {
		*o.at = &b
	}
	return err
}

// optionalNumber is a number that is nil if it was not set.
type optionalNumber struct{ at **int32 }

func (o optionalNumber) String() string {
	if o.at == nil || *o.at == nil {
		return ""
	}
	return strconv.Itoa(int(**o.at))
}

func (o optionalNumber) Type() string { return "int32" }

func (o optionalNumber) Set(text string) error {
	n, err := strconv.ParseInt(text, 10, 32)
	if err == nil {
		*o.at = new(int32(n))
	}
	return err
}

// period is a duration that can be given in days, such as 30d. It is nil if it was not set.
type period struct{ at **time.Duration }

func (p period) String() string {
	if p.at == nil || *p.at == nil {
		return ""
	}
	return (*p.at).String()
}

func (p period) Type() string { return "duration" }

func (p period) Set(text string) error {
	d, err := time.ParseDuration(text)
	if number, ok := strings.CutSuffix(text, "d"); ok {
		var days uint64
		days, err = strconv.ParseUint(number, 10, 16)
		d = time.Duration(days) * 24 * time.Hour
	}
	if err == nil && d < 0 {
		err = errors.New("it is negative")
	}
	if err == nil {
		*p.at = &d
	}
	return err
}

// givenFlags are the flags that were set.
func givenFlags(c *cobra.Command) []string {
	var names []string
	c.Flags().Visit(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}
