package upgrade

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/release"
)

// testReleases finds the published versions; without any there is no network.
func testReleases(t *testing.T, tool string, published map[string]string) Releases {
	t.Helper()
	parsed, err := release.ParseTool(tool)
	if err != nil {
		t.Fatal(err)
	}
	return Releases{Tool: parsed, Fetch: func(url string) (string, error) {
		label := strings.TrimSuffix(strings.TrimPrefix(url, "https://dl.k8s.io/release/"), ".txt")
		if text, ok := published[label]; ok {
			return text, nil
		}
		if published == nil {
			return "", errors.New("no such host")
		}
		return "", fmt.Errorf("%s answered with status 404", url)
	}}
}

func TestFindCandidates(t *testing.T) {
	online := map[string]string{"stable": "v1.37.1", "stable-1.36": "v1.36.4",
		"stable-1.37": "v1.37.1",
		"latest":      "v1.37.1", "latest-1.36": "v1.36.4"}
	pre := map[string]string{"stable": "v1.36.4", "stable-1.36": "v1.36.4",
		"latest": "v1.37.0-beta.0", "latest-1.36": "v1.36.5-rc.1"}
	both := Choice{AllowExperimental: true, AllowRC: true}
	for name, c := range map[string]struct {
		current   string
		tool      string // v1.37.1 if empty
		published map[string]string
		choice    Choice
		want      []string
		note      string
	}{
		"patch and minor": {current: "v1.36.3", published: online,
			want: []string{"v1.36.4 version in the v1.36 series", "v1.37.1 stable version"}},
		"minor": {current: "v1.36.4", published: online,
			want: []string{"v1.37.1 stable version"}},
		"patch of the newest": {current: "v1.37.0", published: online,
			want: []string{"v1.37.1 version in the v1.37 series"}},
		"newest":         {current: "v1.37.1", published: online},
		"newer than all": {current: "v1.38.0", published: online},
		"released pre-releases": {current: "v1.36.4", published: online, choice: both,
			want: []string{"v1.37.1 stable version"}},
		"beta": {current: "v1.36.4", published: pre, choice: both,
			want: []string{"v1.36.5-rc.1 release candidate version",
				"v1.37.0-beta.0 experimental version"}},
		"release candidate": {current: "v1.36.4", published: pre, choice: Choice{AllowRC: true},
			want: []string{"v1.36.5-rc.1 release candidate version"}},
		"pre-releases unwanted": {current: "v1.36.4", published: pre},
		"newer than kubeadm": {current: "v1.36.4", tool: "v1.36.3",
			published: map[string]string{"stable": "v1.37.1", "stable-1.36": "v1.36.5"},
			want:      []string{"v1.36.5 version in the v1.36 series"},
			note:      "newer than this kubeadm (v1.36.3): using stable-1.36"},
		"no network": {current: "v1.36.3", want: []string{"v1.37.1 stable version"},
			note: "cannot tell whether v1.36 has a newer patch release"},
		"no network, same minor": {current: "v1.37.0",
			want: []string{"v1.37.1 version in the v1.37 series"},
			note: `cannot resolve the version label "stable": no such host`},
		"no such series": {current: "v1.36.3", published: map[string]string{"stable": "v1.37.1"},
			want: []string{"v1.37.1 stable version"},
			note: "stable-1.36.txt answered with status 404"},
		"another series": {current: "v1.36.3",
			published: map[string]string{"stable": "v1.37.1", "stable-1.36": "v1.35.2"},
			want:      []string{"v1.37.1 stable version"},
			note:      "cannot tell whether v1.36 has a newer patch release"},
		"named patch": {current: "v1.36.3", choice: Choice{Version: "1.36.9"},
			want: []string{"v1.36.9 version in the v1.36 series"}},
		"named minor": {current: "v1.36.3", choice: Choice{Version: "v1.37.0"},
			want: []string{"v1.37.0 stable version"}},
		"named release candidate": {current: "v1.36.3", choice: Choice{Version: "v1.37.0-rc.0"},
			want: []string{"v1.37.0-rc.0 release candidate version"}},
		"named alpha": {current: "v1.36.3", choice: Choice{Version: "v1.37.0-alpha.1"},
			want: []string{"v1.37.0-alpha.1 experimental version"}},
		"named label": {current: "v1.36.3", published: online,
			choice: Choice{Version: "stable-1.36"},
			want:   []string{"v1.36.4 version in the v1.36 series"}},
		"the same": {current: "v1.36.3", choice: Choice{Version: "v1.36.3"}},
		"older":    {current: "v1.36.3", choice: Choice{Version: "v1.36.0"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.tool == "" {
				c.tool = "v1.37.1"
			}
			releases := testReleases(t, c.tool, c.published)
			found, notes, err := releases.FindCandidates(version.MustParseSemantic(c.current),
				c.choice)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				got = append(got, f.String()+" "+f.Description)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if said := strings.Join(notes, "\n"); !strings.Contains(said, c.note) || c.note == "" &&
				said != "" {
				t.Errorf("the notes are %q, want %q", said, c.note)
			}
		})
	}
}

func TestNewestPatch(t *testing.T) {
	online := testReleases(t, "v1.37.1", map[string]string{"stable-1.35": "v1.35.4"})
	if got := online.NewestPatch(35); got != "v1.35.4" {
		t.Errorf("the newest of v1.35 is %s", got)
	}
	if got := online.NewestPatch(36); got != "v1.36.X" {
		t.Errorf("of an unknown minor it is %s", got)
	}
}

func TestFlagForPreReleases(t *testing.T) {
	for text, want := range map[string]string{
		"v1.37.1": "", "v1.38.0-rc.1": "--allow-release-candidate-upgrades",
		"v1.38.0-beta.0": "--allow-experimental-upgrades",
	} {
		if got := (Candidate{Version: version.MustParseSemantic(text)}).Flag(); got != want {
			t.Errorf("%s needs %q", text, got)
		}
	}
}
