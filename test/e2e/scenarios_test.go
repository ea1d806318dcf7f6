package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// scenarioCount is the number of the last scenario in the catalogue.
const scenarioCount = 203

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)
	testName     = regexp.MustCompile(`Test[A-Z]\w*`)
	reasonRow    = regexp.MustCompile(`^\| ([a-z][a-z0-9]*) \| [^|]+ \|$`)
	scenarioRow  = regexp.MustCompile(`^\| (\d+) \| .+ \| (.+) \|$`)
)

// TestCatalogueListsEveryTest checks SCENARIOS.md: it has every scenario, each one names its tests
// or the reason why it has none, every test named exists, and every test is named.
func TestCatalogueListsEveryTest(t *testing.T) {
	tests := declaredTests(t)
	catalogue, err := os.ReadFile("SCENARIOS.md")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	listed, next := make(map[string]bool), 1
	for line := range strings.Lines(string(catalogue)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		names := testName.FindAllString(line, -1)
		for _, name := range names {
			listed[name] = true
			if !slices.Contains(tests, name) {
				t.Errorf("%s does not exist, but is named in: %s", name, line)
			}
		}
		if m := reasonRow.FindStringSubmatch(line); m != nil {
			reasons = append(reasons, m[1])
		}
		m := scenarioRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if number, err := strconv.Atoi(m[1]); err != nil || number != next {
			t.Fatalf("want scenario %d next, got %q", next, m[1])
		}
		next++
		reason, _, _ := strings.Cut(m[2], ":")
		if len(testName.FindAllString(m[2], -1)) == 0 && !slices.Contains(reasons, reason) {
			t.Errorf("scenario %s names neither a test nor the reason why it has none: %s", m[1],
				m[2])
		}
	}
	if next != scenarioCount+1 {
		t.Errorf("the catalogue ends at scenario %d, want %d", next-1, scenarioCount)
	}
	for _, name := range tests {
		if !listed[name] {
			t.Errorf("%s is not in the catalogue", name)
		}
	}
}

// declaredTests lists the tests that run on nodes.
func declaredTests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(source), "//go:build e2e\n") {
			continue
		}
		for _, m := range testFunction.FindAllStringSubmatch(string(source), -1) {
			tests = append(tests, m[1])
		}
	}
	return tests
}
