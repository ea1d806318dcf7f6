package internal_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const mostDependencies = 25

// Each direct dependency is a decision: tools/deps.txt names them all and what each is for.
func TestDependenciesAreDecided(t *testing.T) {
	required, decided := direct(t), purposes(t)
	for _, m := range required {
		if decided[m] == "" {
			t.Errorf("go.mod requires %s, and tools/deps.txt does not say what for", m)
		}
		delete(decided, m)
	}
	for m := range decided {
		t.Errorf("tools/deps.txt names %s, which go.mod does not require directly", m)
	}
	if len(required) > mostDependencies {
		t.Errorf("%d direct dependencies, and the most is %d: each is code that somebody else may change", len(required), mostDependencies)
	}
	if slices.Contains(required, "k8s.io/kubernetes") {
		t.Error("upstream's code must not be linked in: this is a program of its own")
	}
}

// direct lists the modules that go.mod requires and does not mark as indirect.
func direct(t *testing.T) []string {
	t.Helper()
	var all []string
	block := false
	for line := range strings.Lines(text(t, "go.mod")) {
		line = strings.TrimSpace(line)
		switch one, isOne := strings.CutPrefix(line, "require "); {
		case line == "require (":
			block = true
		case line == ")":
			block = false
		case strings.Contains(line, "// indirect"):
		case block && line != "":
			all = append(all, strings.Fields(line)[0])
		case isOne:
			all = append(all, strings.Fields(one)[0])
		}
	}
	if len(all) == 0 {
		t.Fatal("no requirement was found in go.mod")
	}
	return all
}

// purposes reads tools/deps.txt: a module, spaces, and what it is for.
func purposes(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(text(t, "tools/deps.txt")) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m, purpose, _ := strings.Cut(line, " ")
		if strings.TrimSpace(purpose) == "" {
			t.Errorf("tools/deps.txt does not say what %s is for", m)
		}
		all[m] = purpose
	}
	return all
}

func text(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
