package internal_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const maxDependencies = 30

// tools/deps.txt names each direct dependency and its purpose.
func TestDependenciesHavePurpose(t *testing.T) {
	required, decided := listDirectRequirements(t), readPurposes(t)
	linked := 0 // those that are not only for tests
	for _, m := range required {
		if decided[m] == "" {
			t.Errorf("go.mod requires %s, but tools/deps.txt does not name its purpose", m)
		}
		if !strings.HasPrefix(decided[m], "tests: ") {
			linked++
		}
		delete(decided, m)
	}
	for m := range decided {
		t.Errorf("tools/deps.txt names %s, but go.mod does not require it directly", m)
	}
	if linked > maxDependencies {
		t.Errorf("%d direct dependencies, at most %d are allowed: others may change their code",
			linked, maxDependencies)
	}
	if slices.Contains(required, "k8s.io/kubernetes") {
		t.Error("k8s.io/kubernetes must not be linked in")
	}
}

// listDirectRequirements lists the modules that go.mod requires directly.
func listDirectRequirements(t *testing.T) []string {
	t.Helper()
	var all []string
	block := false
	for line := range strings.Lines(readRepositoryFile(t, "go.mod")) {
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

// readPurposes reads tools/deps.txt: a module, a space, and its purpose.
func readPurposes(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(readRepositoryFile(t, "tools/deps.txt")) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m, purpose, _ := strings.Cut(line, " ")
		if strings.TrimSpace(purpose) == "" {
			t.Errorf("tools/deps.txt does not name the purpose of %s", m)
		}
		all[m] = strings.TrimSpace(purpose)
	}
	return all
}

func readRepositoryFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
