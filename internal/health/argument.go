package health

import "regexp"

// rejectedArgument matches the errors of Go's flag library and of pflag in a log line that may be
// quoted.
var rejectedArgument = regexp.MustCompile(
	`(?:unknown flag: |flag provided but not defined: |for flag |for \\?"|` +
		`unknown shorthand flag: '.' in |bad flag syntax: )(-[-A-Za-z0-9_.]+)`)

// RejectedArgument returns the command-line argument that a component rejected, such as
// "--profiling", if the error of a wait names one; else "".
func RejectedArgument(err error) string {
	if err == nil {
		return ""
	}
	if found := rejectedArgument.FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	return ""
}
