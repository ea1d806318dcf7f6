package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/strict"
	"kubeadm/internal/untrusted"
)

// checkArguments refuses mistakes of copying a command line: invisible characters, typographic
// dashes and quotation marks, a single hyphen before a long flag, a flag attached to the word
// before it. Cobra would take these for file names, arguments or other flags.
func checkArguments(root *cobra.Command, args []string) error {
	command, _, err := root.Find(args)
	if err != nil {
		command = root
	}
	flags := []string{"help"} // all names of more than one letter
	for _, set := range []*pflag.FlagSet{command.Flags(), command.InheritedFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if len(f.Name) > 1 {
				flags = append(flags, f.Name)
			}
		})
	}
	for i, arg := range args {
		if arg == "--" {
			return nil
		}
		if i > 0 && isFreeText(args[i-1]) {
			continue
		}
		if name, _, hasValue := strings.Cut(arg, "="); hasValue && isFreeText(name) {
			arg = name
		}
		if err := checkArgument(arg, flags); err != nil {
			err.Err = fmt.Errorf("argument %d, %q, %w", i+1, arg, err.Err)
			return err
		}
	}
	return nil
}

// isFreeText reports whether the value of a flag may be any text.
func isFreeText(arg string) bool {
	return slices.Contains([]string{"--" + string(flag.Description), "--" + string(flag.Output),
		"-o"}, arg)
}

// attachedForm is a flag at the end of a word, or with its value.
var attachedForm = regexp.MustCompile(`[^-\s]--([a-z][a-z-]*[a-z])(?:=|$)`)

// checkArgument returns what is wrong with one argument, without naming it.
func checkArgument(arg string, flags []string) *problem.Problem {
	// A reader of the command line cannot tell these from a blank or from nothing.
	if i := strings.IndexFunc(arg, func(r rune) bool {
		return r != ' ' && r != '\t' && r != '\n' && !unicode.IsPrint(r)
	}); i >= 0 {
		r := []rune(arg[i:])[0]
		if r == '\r' {
			return problem.New(
				errors.New("has a carriage return: the script has Windows line endings"),
				`convert the script: sed -i 's/\r$//' FILE`)
		}
		return problem.New(fmt.Errorf("has %s (U+%04X) as character %d", characterName(r), r,
			len([]rune(arg[:i]))+1),
			"the character is invisible: type this part of the command instead of copying it")
	}
	first := []rune(arg + " ")[0]
	if unicode.Is(unicode.Pd, first) && first != '-' || first == '\u2212' {
		return problem.New(
			fmt.Errorf("begins with %s (U+%04X), not with a hyphen", characterName(first), first),
			"write flags with two hyphens: --"+
				strings.TrimLeftFunc(arg,
					func(r rune) bool {
						return r == '-' || r == '\u2212' ||
							unicode.Is(unicode.Pd, r)
					}))
	}
	if i := strings.IndexAny(arg, "\u201c\u201d\u201e\u2018\u2019"); i >= 0 {
		return problem.New(
			errors.New("has a typographic quotation mark, which shells do not treat as a quote"),
			`use ' or "`)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
	if strings.HasPrefix(arg, "-") && slices.Contains(flags, name) {
		return problem.New(errors.New("has one hyphen before a long flag name"),
			"use two hyphens: --"+name)
	}
	if !strings.HasPrefix(arg, "-") || strings.Contains(arg, "=") {
		for _, found := range attachedForm.FindAllStringSubmatch(arg, -1) {
			if slices.Contains(flags, found[1]) {
				return problem.New(fmt.Errorf("has --%s inside a word", found[1]),
					"insert a space before --"+found[1])
			}
		}
	}
	return nil
}

func characterName(r rune) string {
	switch {
	case r == '\u00a0' || r == '\u202f':
		return "a no-break space"
	case unicode.Is(unicode.Zs, r):
		return "a space of unusual width"
	case r == '\u200b' || r == '\ufeff' || r == '\u2060':
		return "a zero-width space"
	case r == '\u2013':
		return "an en dash"
	case r == '\u2014':
		return "an em dash"
	case r == '\u2212':
		return "a minus sign"
	case unicode.Is(unicode.Pd, r):
		return "a dash"
	}
	return "a control character"
}

// flagError is the error of an invalid flag, with a suggestion.
func flagError(c *cobra.Command, err error) error {
	help := "list the flags: " + c.CommandPath() + " --help"
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		return problem.New(untrusted.Error(err), append(suggestFlag(c, unknown), help)...)
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return problem.New(
			fmt.Errorf("--%s: invalid value %s: %s", f.Name, untrusted.Quote(invalid.GetValue()),
				describeValues(f, invalid)), help)
	case errors.As(err, &missing):
		return problem.New(fmt.Errorf("--%s requires a value", missing.GetFlag().Name), help)
	}
	return problem.New(untrusted.Error(err), help)
}

// suggestFlag is a hint for an unknown flag, if there is a similar one.
func suggestFlag(c *cobra.Command, unknown *pflag.NotExistError) []string {
	name := unknown.GetSpecifiedName()
	if group := unknown.GetSpecifiedShortnames(); group != "" {
		name, _, _ = strings.Cut(group, "=")
	}
	if hint := hintOfRemovedFlag(c, name); hint != "" {
		return []string{hint}
	}
	var there []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			there = append(there, f.Name)
		}
	})
	slices.SortFunc(there, func(a, b string) int { return len(b) - len(a) })
	for _, f := range there {
		if len(f) > 3 && strings.HasPrefix(name, f) &&
			!slices.Contains(there, strings.TrimRight(name, "s")) {
			return []string{"insert a space or an equals sign after --" + f}
		}
	}
	slices.Sort(there)
	if near := strict.Nearest(name, there); near != "" && len(name) > 1 {
		return []string{"did you mean --" + near + "?"}
	}
	return nil
}

// hintOfRemovedFlag is a hint for a flag that earlier releases of kubeadm had: since when it is gone, and
// the flag that replaces it. Without one it is empty.
func hintOfRemovedFlag(c *cobra.Command, name string) string {
	command := strings.TrimPrefix(c.CommandPath(), "kubeadm ")
	for _, removed := range []struct {
		command, flag string // the beginning of the command's path
		minor         int
		now           flag.Name
	}{
		// https://github.com/kubernetes/kubernetes/pull/79327, 104065, 126914 and 127123
		{"join", "experimental-control-plane", 16, flag.ControlPlane},
		{"init", "experimental-upload-certs", 16, flag.UploadCerts},
		{"", "experimental-patches", 23, flag.Patches},
		{"", "experimental-output", 32, flag.Output},
		{"upgrade apply", "feature-gates", 32, ""},
		{"upgrade diff", "api-server-manifest", 32, ""},
		{"upgrade diff", "controller-manager-manifest", 32, ""},
		{"upgrade diff", "scheduler-manifest", 32, ""},
	} {
		if removed.flag != name || !strings.HasPrefix(command, removed.command) {
			continue
		}
		since := fmt.Sprintf("--%s was removed in Kubernetes 1.%d: ", name, removed.minor)
		switch {
		case removed.now == "":
			return since + "leave it out"
		case c.Flags().Lookup(string(removed.now)) != nil:
			return since + "set --" + string(removed.now) + " instead"
		}
	}
	return ""
}

// describeValues says which values a flag accepts.
func describeValues(f *pflag.Flag, invalid error) string {
	switch f.Value.Type() {
	case "int", "int32":
		if strings.Contains(invalid.Error(), "out of range") {
			return "the number is too large"
		}
		return "must be an integer"
	case "bool":
		return "must be true or false"
	case "duration":
		if _, ok := f.Value.(period); ok {
			return "must be a number of days or hours, such as 30d or 12h"
		}
		return "must be a duration with units, such as 24h0m0s"
	case "mapStringString":
		return "must be name=value,..."
	}
	return "must be a comma-separated list; an element that contains a double quote must itself be quoted"
}
