package node

import (
	"slices"
	"strings"
)

// IgnoredChecks is the set of preflight checks whose errors count as warnings, in lower case.
type IgnoredChecks []string

// Has reports whether the errors of the named check are to be ignored; case does not matter.
func (i IgnoredChecks) Has(check string) bool {
	return slices.Contains(i, "all") || slices.Contains(i, strings.ToLower(check))
}
