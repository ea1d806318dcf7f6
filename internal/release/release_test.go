package release

import (
	"errors"
	"strings"
	"testing"
)

func parseTool(t *testing.T, text string) Tool {
	t.Helper()
	tool, err := ParseTool(text)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func parseTarget(t *testing.T, text string) Target {
	t.Helper()
	target, err := ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// wantError fails unless err mentions every part; no parts means no error.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if len(parts) == 0 {
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return
	}
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not mention %q", err, part)
		}
	}
}

func TestToolVersionMustBeSemantic(t *testing.T) {
	if got := parseTool(t, DefaultTool).String(); got != DefaultTool {
		t.Errorf("got %s, want %s", got, DefaultTool)
	}
	_, err := ParseTool("1.37")
	wantError(t, err, "1.37")
}

func TestTargetIsReadBackAsStored(t *testing.T) {
	for text, want := range map[string]struct {
		stored, tag string
		ci          bool
	}{
		"v1.37.1":         {"v1.37.1", "v1.37.1", false},
		"1.36.0":          {"v1.36.0", "v1.36.0", false},
		"release/v1.36.0": {"v1.36.0", "v1.36.0", false},
		"v1.38.0-alpha.1": {"v1.38.0-alpha.1", "v1.38.0-alpha.1", false},
		"ci/v1.38.0-alpha.0.12+a1b2c3": {"ci/v1.38.0-alpha.0.12+a1b2c3",
			"v1.38.0-alpha.0.12+a1b2c3", true},
		"ci-cross/v1.38.0-beta.0.1+abc": {"ci/v1.38.0-beta.0.1+abc", "v1.38.0-beta.0.1+abc", true},
	} {
		got := parseTarget(t, text)
		if got.Stored() != want.stored || got.String() != want.tag || got.CI() != want.ci {
			t.Errorf("%s: got %s, %s, %v, want %v", text, got.Stored(), got, got.CI(), want)
		}
		if again := parseTarget(t, got.Stored()); again.Stored() != got.Stored() {
			t.Errorf("%s: stored as %s, read back as %s", text, got.Stored(), again.Stored())
		}
	}
}

func TestParseTargetRejectsInvalidVersions(t *testing.T) {
	for _, text := range []string{"", "v1", "v1.37", "1.37.x", "stable", "v1.2.3 4", "foo/v1.37.1",
		"/v1.37.1", "v01.2.3"} {
		if got, err := ParseTarget(text); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

func TestVersionLabels(t *testing.T) {
	for text, want := range map[string]bool{
		"stable": true, "latest": true, "stable-1": true, "latest-1.37": true, "stable-1.5": true,
		"ci/latest": true,
		"v1.37.1":   false, "stable-": false, "stable-01": false, "stable-1.037": false,
		"stable-1.370": false,
		"unstable":     false, "stable-1.": false, "": false, "stablelatest": false,
	} {
		asked := false
		_, _, err := parseTool(t, "v1.37.1").Resolve(text,
			func(string) (string, error) { asked = true; return "v1.37.1", nil })
		if asked != want || want && err != nil {
			t.Errorf("%q: the network is asked: %v, want %v (%v)", text, asked, want, err)
		}
	}
}

func TestResolve(t *testing.T) {
	published := map[string]string{
		"https://dl.k8s.io/release/stable-1.txt":    "v1.38.2\n",
		"https://dl.k8s.io/release/stable-1.37.txt": "v1.37.4\n",
		"https://dl.k8s.io/release/stable-1.36.txt": "v1.36.3",
		"https://dl.k8s.io/release/stable-1.34.txt": "v1.36.0",
		"https://dl.k8s.io/release/latest.txt":      "<html>sign in</html>",
		"https://storage.googleapis.com/" +
			"k8s-release-dev/ci-fast/latest-1.37.txt": "v1.37.2-rc.0.4+abc",
	}
	fetch := func(url string) (string, error) {
		if body, ok := published[url]; ok {
			return body, nil
		}
		return "", errors.New("no route to " + url)
	}
	for _, c := range []struct {
		tool, text, want string
		notes            int
		errs             []string
	}{
		{tool: "v1.37.1", text: "v1.36.2", want: "v1.36.2"},
		{tool: "v1.37.1", text: "stable-1.36", want: "v1.36.3"},
		{tool: "v1.37.1", text: "release/stable-1.36", want: "v1.36.3"},
		{tool: "v1.37.1", text: "stable-1", want: "v1.37.4", notes: 1},
		{tool: "v1.36.0", text: "stable-1", want: "v1.36.3", notes: 1},
		{tool: "v1.35.7", text: "stable-1", want: "v1.35.7", notes: 3},
		{tool: "v1.37.1", text: "stable", want: "v1.37.1", notes: 2},
		{tool: "v1.34.0", text: "stable-1.34", want: "v1.36.0"},
		{tool: "v1.37.1", text: "latest", want: "v1.37.1", notes: 2},
		{tool: "v1.37.1", text: "ci-fast/latest-1.37", want: "ci/v1.37.2-rc.0.4+abc"},
		{tool: "v1.37.2-beta.0.7+abc", text: "stable", want: "v1.37.1", notes: 2},
		{tool: "v1.38.0-alpha.1.22+abc", text: "stable", want: "v1.38.0-alpha.1", notes: 2},
		{tool: "v1.38.0-rc+abc", text: "stable", want: "v1.38.0-rc.0", notes: 2},
		{tool: "v1.37.1", text: "nightly", errs: []string{"nightly"}},
		{tool: "v1.37.1", text: "store/stable", errs: []string{"store/stable"}},
	} {
		t.Run(c.tool+" "+c.text, func(t *testing.T) {
			got, notes, err := parseTool(t, c.tool).Resolve(c.text, fetch)
			wantError(t, err, c.errs...)
			if got.Stored() != c.want || len(notes) != c.notes {
				t.Errorf("got %s with notes %q, want %s with %d notes", got.Stored(), notes, c.want,
					c.notes)
			}
		})
	}
}

func TestVersionsAreNotFetched(t *testing.T) {
	fetch := func(url string) (string, error) {
		t.Errorf("fetched %s", url)
		return "", errors.New("unexpected")
	}
	if _, _, err := parseTool(t, DefaultTool).Resolve("ci/v1.37.2-rc.1", fetch); err != nil {
		t.Error(err)
	}
}
