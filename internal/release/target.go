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

// ciPrefix marks, in a configuration, a version built by continuous integration.
const ciPrefix = "ci/"

// ParseTarget reads a version, not a label: "v1.37.1", "1.37.1" or, for a build
// of continuous integration, "ci/v1.38.0-alpha.1.2+abc".
func ParseTarget(text string) (Target, error) {
	bucket, rest := splitBucket(text)
	number, err := version.ParseSemantic(rest)
	if err != nil || !(bucket == "release" || ciBucket(bucket)) {
		return Target{}, fmt.Errorf("%q is not a Kubernetes version: write it like v1.37.1", text)
	}
	return Target{number: number, ci: ciBucket(bucket)}, nil
}

// String returns the version as image tags and the user know it: "v1.37.1".
func (t Target) String() string {
	if t.number == nil {
		return ""
	}
	return "v" + t.number.String()
}

// Stored returns what ParseTarget reads back whole: with "ci/" before a build
// of continuous integration.
func (t Target) Stored() string {
	if t.ci {
		return ciPrefix + t.String()
	}
	return t.String()
}

// CI reports whether the version was built by continuous integration.
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

// bucketForm is an optional store ("ci", "ci-cross", "release") before a slash.
var bucketForm = regexp.MustCompile(`^(?:([a-z][\w-]*)/)?([-\w.+]+)$`)

// splitBucket returns "release" for a text without a store, and two empty
// strings for one that has no such form at all.
func splitBucket(text string) (bucket, rest string) {
	m := bucketForm.FindStringSubmatch(strings.TrimSpace(text))
	switch {
	case m == nil:
		return "", ""
	case m[1] == "":
		return "release", m[2]
	}
	return m[1], m[2]
}

func ciBucket(bucket string) bool { return strings.HasPrefix(bucket, "ci") }
