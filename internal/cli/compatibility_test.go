package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The table of docs/compatibility.md speaks of every command, and of none that is not there
// without saying so.
func TestCompatibilityPageListsEveryCommand(t *testing.T) {
	text, err := os.ReadFile("../../docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n## Commands\n")
	table, _, _ = strings.Cut(table, "\n## ")
	// command, or what it begins with and an ellipsis; and whether it is there
	told := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`kubeadm") {
			continue
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			told[strings.Trim(name, " `")] = !strings.Contains(cells[2], "no")
		}
	}
	root := New(testHost(t))
	eachCommand(root, func(c *cobra.Command) {
		leaf := !c.HasAvailableSubCommands() || c.Name() == "init" || c.Name() == "join" ||
			c.Name() == "reset"
		if path := c.CommandPath(); leaf && c.IsAvailableCommand() && !isListed(told, path) {
			t.Errorf("%s is not in the table", path)
		}
	})
	for name, there := range told {
		c, rest, err := root.Find(
			strings.Fields(strings.TrimSuffix(strings.TrimPrefix(name, "kubeadm"), "…")))
		if found := err == nil && len(rest) == 0 && !c.Hidden; found != there {
			t.Errorf("the table says that %s is there: %v", name, there)
		}
	}
}

// isListed reports whether the table speaks of a command, by its name or by that of a group around
// it.
func isListed(told map[string]bool, path string) bool {
	words := strings.Fields(path)
	for n := range words {
		if told[strings.Join(words[:n+1], " ")+" …"] {
			return true
		}
	}
	return told[path]
}
