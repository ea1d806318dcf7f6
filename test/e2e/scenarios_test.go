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

var (
	testFunction = regexp.MustCompile(`(?m)^func (TestS\d{3}_\w+)\(`)
	testName     = regexp.MustCompile(`TestS\d{3}_\w+`)
	scenarioRow  = regexp.MustCompile(`^\| (\d+) \| (.+) \| (.+) \|$`)
)

// TestCatalogueListsEveryTest checks that SCENARIOS.md has all scenarios, names every test on the line of its number and none
// that does not exist.
func TestCatalogueListsEveryTest(t *testing.T) {
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
		for _, m := range testFunction.FindAllStringSubmatch(string(source), -1) {
			tests = append(tests, m[1])
		}
	}
	catalogue, err := os.ReadFile("SCENARIOS.md")
	if err != nil {
		t.Fatal(err)
	}
	next, listed := 1, make(map[string]bool)
	for line := range strings.Lines(string(catalogue)) {
		m := scenarioRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		number, err := strconv.Atoi(m[1])
		if err != nil || number != next {
			t.Fatalf("want scenario %d next, got %q", next, m[1])
		}
		next++
		for _, name := range testName.FindAllString(m[3], -1) {
			if !slices.Contains(tests, name) {
				t.Errorf("scenario %d names %s, which does not exist", number, name)
			}
			if name[5:8] == pad(number) {
				listed[name] = true
			}
		}
	}
	if next != 204 {
		t.Errorf("the catalogue ends at %d", next-1)
	}
	for _, name := range tests {
		if !listed[name] {
			t.Errorf("%s is not on the line of its scenario", name)
		}
	}
}

func pad(number int) string { return strconv.Itoa(1000 + number)[1:] }
