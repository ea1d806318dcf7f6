package release

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Fetch returns the text behind a URL. Time-outs are the caller's.
type Fetch func(url string) (string, error)

// Where the version behind a label is published.
const (
	releaseURL = "https://dl.k8s.io/release/"
	ciURL      = "https://storage.googleapis.com/k8s-release-dev/"
)

// labelForm is "stable" or "latest", optionally with a major ("stable-1") or a minor version
// ("stable-1.37").
var labelForm = regexp.MustCompile(`^(latest|stable)(-[1-9](\.[1-9][0-9]?)?)?$`)

// IsLabel reports whether the text stands for a version that Resolve would have to fetch.
func IsLabel(text string) bool {
	_, rest, _ := splitBucket(text)
	return labelForm.MatchString(rest)
}

// Resolve turns a version or a label ("stable-1", "latest-1.37", "ci/latest")
// into the release to deploy. If the label cannot be fetched, it returns the version of this
// program; if the label is a newer minor version than this program, the newest stable release of
// this program's minor version. Notes inform the user of both.
func (t Tool) Resolve(text string, fetch Fetch) (target Target, notes []string, err error) {
	bucket, rest, ci := splitBucket(text)
	if !labelForm.MatchString(rest) {
		target, err = ParseTarget(text)
		return target, nil, err
	}
	url := releaseURL + rest + ".txt"
	switch {
	case ci:
		url = ciURL + bucket + "/" + rest + ".txt"
	case bucket != "release":
		return Target{}, nil,
			fmt.Errorf("version label %q: unknown prefix %q; use \"release/\" or \"ci/\"",
				bucket+"/"+rest, bucket+"/")
	}
	var number *version.Version
	body, err := fetch(url)
	if err == nil {
		if number, err = version.ParseSemantic(strings.TrimSpace(body)); err != nil {
			err = fmt.Errorf("%s did not return a version", url)
		}
	}
	if err != nil {
		own := t.published()
		return Target{number: own, ci: ci}, []string{
			fmt.Sprintf("cannot resolve the version label %q: %v", text, err),
			fmt.Sprintf("using the version of this kubeadm instead: v%s", own),
		}, nil
	}
	if own := "stable-" + t.MinorVersion(); t.behind(number) && rest != own {
		target, notes, err = t.Resolve(own, fetch)
		note := fmt.Sprintf("%q is v%s, which is newer than this kubeadm (%s): using %s instead",
			text, number, t, own)
		return target, append([]string{note}, notes...), err
	}
	return Target{number: number, ci: ci}, nil, nil
}

func (t Tool) behind(v *version.Version) bool {
	return v.Major() > t.number.Major() || v.Major() == t.number.Major() &&
		v.Minor() > t.number.Minor()
}

// published is the newest version with published images that is not newer than the tool: a build
// between two releases maps to the release before it.
func (t Tool) published() *version.Version {
	v := t.number.WithBuildMetadata("")
	switch {
	case v.PreRelease() == "":
		return v
	case v.Patch() > 0:
		return version.MustParseSemantic(fmt.Sprintf("%s.%d", t.MinorVersion(), v.Patch()-1))
	}
	parts := append(strings.Split(v.PreRelease(), "."), "0")
	return v.WithPreRelease(parts[0] + "." + parts[1])
}
