package guides

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const guideDir = "../../docs/guide"

// Every block of every guide says how a test runs it, and the index lists every guide.
func TestGuidesAreMarked(t *testing.T) {
	all, err := Load(guideDir)
	if err != nil {
		t.Error(err)
	}
	index, err := os.ReadFile(filepath.Join(guideDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Errorf("only %d guides were found", len(all))
	}
	for _, g := range all {
		if !strings.Contains(string(index), "]("+g.Name+".md)") {
			t.Errorf("README.md does not list %s.md", g.Name)
		}
		commands := 0
		for _, b := range g.Blocks {
			if b.Kind == Command {
				commands++
			}
		}
		if commands == 0 {
			t.Errorf("%s.md has no command that is run", g.Name)
		}
	}
}

var localLink = regexp.MustCompile(`\]\(([^):]+?)(?:#[^)]*)?\)`)

// Links of the guides lead to files.
func TestLinks(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(guideDir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range localLink.FindAllStringSubmatch(string(data), -1) {
			if _, err := os.Stat(filepath.Join(guideDir, m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
	}
}

func TestParse(t *testing.T) {
	g, err := Parse("a", `# A
<!-- test: nodes=cp1,worker1 balancer -->
`+"```sh node=cp1,worker1 fails\nfalse\n```\n```text\nit …\n```\n```yaml node=cp1 file=/root/a.yaml\na: 1\n```\n"+
		"<!-- sandbox: poweroff cp2 -->\n```sh sandbox=pod-network\nkubectl apply -f x\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	want := Guide{Name: "a", Nodes: []string{"cp1", "worker1"}, Options: []string{"balancer"},
		Blocks: []Block{
			{Kind: Command, Line: 3, Nodes: []string{"cp1", "worker1"}, Fails: true, Text: "false\n"},
			{Kind: Output, Line: 6, Text: "it …\n"},
			{Kind: File, Line: 9, Nodes: []string{"cp1"}, File: "/root/a.yaml", Text: "a: 1\n"},
			{Kind: Sandbox, Line: 12, Step: []string{"poweroff", "cp2"}},
			{Kind: Sandbox, Line: 13, Step: []string{"pod-network"}, Text: "kubectl apply -f x\n"},
		}}
	if diff := cmp.Diff(want, g); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseFaults(t *testing.T) {
	const top = "<!-- test: nodes=cp1 -->\n"
	for text, want := range map[string]string{
		"```sh node=cp1\ntrue\n```\n":             "no line",
		"<!-- test: nodes=cp1 ballancer -->\n":    `"ballancer" is unknown`,
		top + "```sh\ntrue\n```\n":                "needs node=",
		top + "```\ntrue\n```\n":                  "does not say what it is",
		top + "```sh node=cp2\ntrue\n```\n":       "cp2 is not in nodes=",
		top + "```sh node=cp1 maybe\ntrue\n```\n": `"maybe" is unknown`,
		top + "```text\nhello\n```\n":             "must follow",
		top + "```yaml node=cp1\na: 1\n```\n":     "needs node=, or node= and file=",
		top + "```sh node=cp1\ntrue\n":            "no end",
		top + "\n    kubeadm init\n":              "indented block",
	} {
		if _, err := Parse("a", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestFindMissing(t *testing.T) {
	const printed = "one\n  two  words\nthree: 3.5 s\nfour\n"
	for want, missing := range map[string]string{
		"one\ntwo words\n": "", "one\n…\nfour\n": "", "three: … s\n": "", "…\n": "", "t… words\nthree…\n": "",
		"five\n": "five", "four\none\n": "one", "two\n": "two", "three: … m\n": "three: … m",
	} {
		if got, ok := FindMissing(want, printed); got != missing || ok != (missing == "") {
			t.Errorf("%q: %q is missing, want %q", want, got, missing)
		}
	}
}
