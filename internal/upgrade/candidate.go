package upgrade

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/problem"
	"kubeadm/internal/release"
)

// Descriptions of candidates in the structured output, as other programs know them.
const (
	descriptionPatch        = "version in the v%d.%d series"
	descriptionStable       = "stable version"
	descriptionRC           = "release candidate version"
	descriptionExperimental = "experimental version"
)

// Choice is which versions count as candidates.
type Choice struct {
	Version           string // version or label to plan for; empty for the newest releases
	AllowExperimental bool   // alpha and beta versions count, and release candidates
	AllowRC           bool   // release candidates count
}

// Candidate is a version that a cluster could be upgraded to.
type Candidate struct {
	Description string
	Version     *version.Version
}

// String is the version with a leading "v".
func (c Candidate) String() string { return "v" + c.Version.String() }

// Flag is the flag that "upgrade apply" needs to take the version; empty for a release.
func (c Candidate) Flag() string {
	switch {
	case c.Version.PreRelease() == "":
		return ""
	case isReleaseCandidate(c.Version):
		return "--allow-release-candidate-upgrades"
	}
	return "--allow-experimental-upgrades"
}

// Releases finds the versions behind labels such as "stable-1.37".
type Releases struct {
	Tool  release.Tool
	Fetch release.Fetch
}

// FindCandidates returns the versions that a cluster of the current version could be upgraded to:
// the newest patch release of its minor first, then the newest stable release, then pre-releases
// as Choice allows. Notes say what could not be looked up. A Choice.Version is the only candidate.
func (r Releases) FindCandidates(
	current *version.Version, choice Choice,
) (candidates []Candidate, notes []string, err error) {
	if choice.Version != "" {
		return r.requested(current, choice.Version)
	}
	stable, err := r.lookUp("stable")
	if err != nil {
		return nil, nil, err
	}
	notes = stable.notes
	if !stable.answered { // other labels will not be answered either
		failed := errors.New(stable.notes[0])
		r.Fetch = func(string) (string, error) { return "", failed }
		notes = []string{stable.notes[0], fmt.Sprintf(
			"releases newer than this kubeadm, v%s, are not considered", stable.version)}
	}
	newest := current
	offer := func(v *version.Version, description string) {
		if newest.LessThan(v) {
			candidates = append(candidates, Candidate{description, v})
			newest = v
		}
	}
	if !stable.version.LessThan(current) {
		series := fmt.Sprintf("%d.%d", current.Major(), current.Minor())
		patch, err := r.lookUp("stable-" + series)
		if err != nil {
			return nil, notes, err
		}
		if patch.version.Minor() == current.Minor() {
			offer(patch.version, fmt.Sprintf(descriptionPatch, current.Major(), current.Minor()))
		} else {
			switch {
			case !stable.answered: // that is said already
			case len(patch.notes) > 0:
				notes = append(notes, patch.notes[0])
			default:
				notes = append(notes, fmt.Sprintf("the newest release of v%s is reported to be v%s", series,
					patch.version))
			}
			notes = append(notes,
				fmt.Sprintf("cannot tell whether v%s has a newer patch release; if you know of one, name it: "+
					"kubeadm upgrade plan v%s.X", series, series))
		}
	}
	offer(stable.version, descriptionStable)
	if choice.AllowExperimental || choice.AllowRC {
		preReleases, asked, err := r.findPreReleases(choice)
		if err != nil {
			return nil, notes, err
		}
		if stable.answered {
			notes = append(notes, asked...)
		}
		for _, c := range preReleases {
			offer(c.Version, c.Description)
		}
	}
	return candidates, notes, nil
}

// requested returns the version that the user names, if it is newer than the current one.
func (r Releases) requested(
	current *version.Version, text string,
) (candidates []Candidate, notes []string, err error) {
	target, notes, err := r.Tool.Resolve(text, r.Fetch)
	if err != nil {
		return nil, notes, err
	}
	v := target.Version()
	switch {
	case !current.LessThan(v):
		return nil, notes, nil
	case isReleaseCandidate(v):
		return []Candidate{{descriptionRC, v}}, notes, nil
	case v.PreRelease() != "":
		return []Candidate{{descriptionExperimental, v}}, notes, nil
	case v.Minor() == current.Minor():
		series := fmt.Sprintf(descriptionPatch, v.Major(), v.Minor())
		return []Candidate{{series, v}}, notes, nil
	}
	return []Candidate{{descriptionStable, v}}, notes, nil
}

// Target resolves the version to upgrade to. A label that cannot be looked up is an error: an
// upgrade to the version of this program instead may not be wanted.
func (r Releases) Target(text string) (target release.Target, notes []string, err error) {
	var failed error
	target, notes, err = r.Tool.Resolve(text, func(url string) (string, error) {
		body, err := r.Fetch(url)
		if _, invalid := version.ParseSemantic(strings.TrimSpace(body)); err == nil &&
			invalid != nil {
			err = fmt.Errorf("%s did not return a version", url)
		}
		failed = err
		return body, err
	})
	if err == nil && failed != nil {
		return release.Target{}, nil, problem.During(fmt.Sprintf("looking up version %q", text),
			failed, fmt.Sprintf("without internet access, name a version such as %s", r.Tool))
	}
	return target, notes, err
}

// findPreReleases returns the newest version of all and the newest of the minor before it, as far
// as they are pre-releases that Choice allows. An alpha.0 only marks the beginning of a minor: it
// has no new features.
func (r Releases) findPreReleases(
	choice Choice,
) (candidates []Candidate, notes []string, err error) {
	newest, err := r.lookUp("latest")
	if err != nil {
		return nil, nil, err
	}
	before := newest
	if minor := newest.version.Minor(); minor > 0 {
		label := fmt.Sprintf("latest-%d.%d", newest.version.Major(), minor-1)
		if before, err = r.lookUp(label); err != nil {
			return nil, nil, err
		}
	}
	if choice.AllowRC && isReleaseCandidate(before.version) {
		candidates = append(candidates, Candidate{descriptionRC, before.version})
	}
	latest := newest.version
	if latest.PreRelease() == "alpha.0" {
		latest = before.version
	}
	if choice.AllowExperimental && latest.PreRelease() != "" {
		candidates = append(candidates, Candidate{descriptionExperimental, latest})
	}
	return candidates, newest.notes, nil
}

// answer is the version behind a label.
type answer struct {
	version  *version.Version
	notes    []string // at least one if there was no answer
	answered bool     // if not, version is the one that Tool falls back to
}

func (r Releases) lookUp(label string) (answer, error) {
	var failed error
	target, notes, err := r.Tool.Resolve(label, func(url string) (string, error) {
		text, err := r.Fetch(url)
		failed = err
		return text, err
	})
	if err != nil {
		return answer{}, err
	}
	return answer{target.Version(), notes, failed == nil || len(notes) == 0}, nil
}

// NewestPatch returns the newest release of a minor such as "v1.35.4", or "v1.35.X" if that is
// unknown.
func (r Releases) NewestPatch(minor uint) string {
	found, err := r.lookUp(fmt.Sprintf("stable-1.%d", minor))
	if err != nil || !found.answered || found.version.Minor() != minor {
		return fmt.Sprintf("v1.%d.X", minor)
	}
	return "v" + found.version.String()
}

func isReleaseCandidate(v *version.Version) bool { return strings.HasPrefix(v.PreRelease(), "rc") }
