package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// docs/compatibility.md has a heading or a mention for every command, and for none that does not exist.
func TestCompatibilityPageListsEveryCommand(t *testing.T) {
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(text), "\n## Commands\n")
	commands, _, _ = strings.Cut(commands, "\n## ")
	same, rest, _ := strings.Cut(commands, "\n### ")
	listed := map[string]bool{} // a command, or what it begins with and an ellipsis
	for _, name := range quotedCommand.FindAllStringSubmatch(same, -1) {
		listed[name[1]] = true
	}
	for section := range strings.SplitSeq(rest, "\n### ") {
		heading, _, _ := strings.Cut(section, "\n")
		for _, name := range quotedCommand.FindAllStringSubmatch(heading, -1) {
			listed[name[1]] = true
		}
	}
	root := New(testHost(t))
	eachCommand(root, func(c *cobra.Command) {
		leaf := !c.HasAvailableSubCommands() || c.Name() == "init" || c.Name() == "join" ||
			c.Name() == "reset"
		if path := c.CommandPath(); leaf && c.IsAvailableCommand() && !isListed(listed, path) {
			t.Errorf("%s is not listed", path)
		}
	})
	for name := range listed {
		c, rest, err := root.Find(
			strings.Fields(strings.TrimSuffix(strings.TrimPrefix(name, "kubeadm"), "…")))
		if err != nil || len(rest) > 0 || c.Hidden {
			t.Errorf("%s is listed, but there is no such command", name)
		}
	}
}

var quotedCommand = regexp.MustCompile("`(kubeadm[^`]*)`")

// isListed reports whether the page lists a command, by its name or by that of a group around
// it.
func isListed(listed map[string]bool, path string) bool {
	words := strings.Fields(path)
	for n := range words {
		if listed[strings.Join(words[:n+1], " ")+" …"] {
			return true
		}
	}
	return listed[path]
}
