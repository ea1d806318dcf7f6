package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandHasHelp(t *testing.T) {
	eachCommand(New(testHost(t)), func(c *cobra.Command) {
		switch {
		case c.Short == "" || strings.HasSuffix(c.Short, "."):
			t.Errorf("%s: one line without a full stop is to say what it is for, not %q",
				c.CommandPath(), c.Short)
		case c.HasSubCommands() && c.Name() != "init" && c.Name() != "join" && c.Name() != "reset",
			c.Hidden, !c.Runnable():
		case c.Long == "" && !strings.Contains(c.CommandPath(), " phase "):
			t.Errorf("%s has no description", c.CommandPath())
		case !strings.Contains(c.Example, "kubeadm "):
			t.Errorf("%s has no example", c.CommandPath())
		}
	})
}

// Every command that an example shows is there, and so is every flag that it has there.
func TestExamplesAreValid(t *testing.T) {
	root := New(testHost(t))
	eachCommand(root, func(c *cobra.Command) {
		for line := range strings.Lines(strings.ReplaceAll(c.Example, "\\\n", " ")) {
			_, command, shown := strings.Cut(line, "kubeadm ")
			if !shown || strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			words := strings.Fields(strings.NewReplacer(")", " ", "|", " | ").Replace(command))
			found, rest, err := root.Find(words)
			if err != nil || found.HasSubCommands() && len(rest) > 0 &&
				!strings.HasPrefix(rest[0], "-") && found.Args != nil &&
				found.Args(found, rest[:1]) != nil {
				t.Errorf("%s: %q: no such command", c.CommandPath(), line)
				continue
			}
			for _, w := range rest {
				name, isFlag := strings.CutPrefix(w, "--")
				name, _, _ = strings.Cut(name, "=")
				if isFlag && found.Flag(name) == nil {
					t.Errorf("%s: %q: %s has no flag --%s", c.CommandPath(), line,
						found.CommandPath(), name)
				}
			}
		}
	})
}

func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, child := range c.Commands() {
		eachCommand(child, visit)
	}
}
