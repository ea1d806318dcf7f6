package release

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Target is the Kubernetes release to deploy.
type Target struct {
	number *version.Version
	ci     bool
}

// ciPrefix marks the version of a CI build in a configuration.
const ciPrefix = "ci/"

// ParseTarget parses a version, not a label: "v1.37.1", "1.37.1" or, for a CI build,
// "ci/v1.38.0-alpha.1.2+abc".
func ParseTarget(text string) (Target, error) {
	bucket, rest, ci := splitBucket(text)
	number, err := version.ParseSemantic(rest)
	if err != nil || !ci && bucket != "release" {
		return Target{}, fmt.Errorf("%q is not a Kubernetes version: use the form v1.37.1", text)
	}
	return Target{number: number, ci: ci}, nil
}

// String returns the version with a leading "v": "v1.37.1".
func (t Target) String() string {
	if t.number == nil {
		return ""
	}
	return "v" + t.number.String()
}

// Stored returns the text from which ParseTarget gets the same Target: with "ci/" before a CI
// build.
func (t Target) Stored() string {
	if t.ci {
		return ciPrefix + t.String()
	}
	return t.String()
}

// CI reports whether the version is a CI build.
func (t Target) CI() bool { return t.ci }

// Version returns the version for comparison.
func (t Target) Version() *version.Version { return t.number }

// Minor is the second number of the version, 0 for the zero Target.
func (t Target) Minor() uint {
	if t.number == nil {
		return 0
	}
	return t.number.Minor()
}

// bucketForm is an optional bucket ("ci", "ci-cross", "release") before a slash.
var bucketForm = regexp.MustCompile(`^(?:([a-z][\w-]*)/)?([-\w.+]+)$`)

// splitBucket returns "release" for a text without a bucket, and two empty strings for a text of
// another form. ci reports whether the bucket holds CI builds.
func splitBucket(text string) (bucket, rest string, ci bool) {
	m := bucketForm.FindStringSubmatch(strings.TrimSpace(text))
	switch {
	case m == nil:
		return "", "", false
	case m[1] == "":
		return "release", m[2], false
	}
	return m[1], m[2], strings.HasPrefix(m[1], "ci")
}
