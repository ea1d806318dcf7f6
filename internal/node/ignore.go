package node

import (
	"slices"
	"strings"
)

// Ignore is the set of preflight checks whose errors count as warnings, in lower case.
type Ignore []string

// Has reports whether the errors of the named check are to be ignored; case does not matter.
func (i Ignore) Has(check string) bool {
	return slices.Contains(i, "all") || slices.Contains(i, strings.ToLower(check))
}

// LastArg is the value of the last argument of that name, which is the one that takes effect.
func LastArg(args []Arg, name string) (value string, ok bool) {
	for _, a := range args {
		if a.Name == name {
			value, ok = a.Value, true
		}
	}
	return value, ok
}
