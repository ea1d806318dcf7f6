package cli

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestCommandsAreThoseOfThePeer compares every command's flags, with their types and defaults,
// and its subcommands with what upstream's kubeadm says in its help. It is skipped unless
// KUBEADM_PEER names that program.
func TestCommandsAreThoseOfThePeer(t *testing.T) {
	peer := os.Getenv("KUBEADM_PEER")
	if peer == "" {
		t.Skip("KUBEADM_PEER names no upstream kubeadm to compare with")
	}
	eachCommand(New(testHost(t)), func(c *cobra.Command) {
		if c.CommandPath() == more || c.Hidden {
			return
		}
		path := strings.Fields(c.CommandPath())[1:]
		text, err := exec.Command(peer, append(path, "--help")...).Output()
		if err != nil {
			t.Errorf("%s: %v", c.CommandPath(), err)
			return
		}
		flags := flagsOf(c)
		for _, added := range besides()[c.CommandPath()] {
			delete(flags, added)
		}
		if diff := cmp.Diff(flagsInHelp(string(text)), flags); diff != "" {
			t.Errorf("%s: flags of the peer (-) and ours (+):\n%s", c.CommandPath(), diff)
		}
		theirs := commandsInHelp(string(text))
		for _, name := range names(c) {
			if !slices.Contains(theirs, name) && c.CommandPath()+" "+name != more {
				t.Errorf("%s: the peer has no %s", c.CommandPath(), name)
			}
		}
		if missing := missingNames(theirs, names(c)); !slices.Equal(missing, notYet()[c.CommandPath()]) {
			t.Errorf("%s: the peer has %v besides", c.CommandPath(), missing)
		}
	})
}

// more is a command that the peer does not have: here every group of phases has an "all".
const more = "kubeadm init phase etcd all"

// besides are flags that the peer does not have.
func besides() map[string][]string {
	return map[string][]string{
		"kubeadm join":                 {"replace-member"},
		"kubeadm join phase etcd-join": {"replace-member"},
		"kubeadm token create":         {"upload-certs"},
	}
}

// notYet are the commands of the peer that are still to come.
func notYet() map[string][]string {
	return map[string][]string{
		"kubeadm": {"upgrade"},
	}
}

func missingNames(theirs, ours []string) []string {
	var missing []string
	for _, name := range theirs {
		if !slices.Contains(ours, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

func eachCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, child := range c.Commands() {
		eachCommand(child, visit)
	}
}

// helpLine is a flag in a help text: letter, name, type, and at the end the default.
var (
	helpLine    = regexp.MustCompile(`^ +(?:-(\w), )?--([\w-]+)(?: ([\w]+))?  +\S`)
	helpDefault = regexp.MustCompile(`\(default (.*)\)$`)
)

// described is what a help text says of a flag.
type described struct{ Letter, Type, Default string }

// flagsInHelp reads the flags of the command itself.
func flagsInHelp(text string) map[string]described {
	text, _, _ = strings.Cut(text, "\nGlobal Flags:")
	found := map[string]described{}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		m := helpLine.FindStringSubmatch(line)
		if m == nil || m[2] == "help" || global(m[2]) {
			continue
		}
		d := described{Letter: m[1], Type: m[3]}
		if v := helpDefault.FindStringSubmatch(line); v != nil && !strings.HasPrefix(v[1], "=") && m[2] != "feature-gates" {
			d.Default = strings.Trim(v[1], `"`)
		}
		found[m[2]] = d
	}
	return found
}

func global(name string) bool { return slices.Contains([]string{"rootfs", "v", "vmodule"}, name) }

func flagsOf(c *cobra.Command) map[string]described {
	found := map[string]described{}
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || global(f.Name) {
			return
		}
		kind, _ := pflag.UnquoteUsage(f)
		value := f.DefValue
		if value == "[]" || value == "false" {
			value = ""
		}
		found[f.Name] = described{f.Shorthand, kind, value}
	})
	return found
}

// commandsInHelp reads the names under "Available Commands:".
func commandsInHelp(text string) []string {
	_, text, _ = strings.Cut(text, "Available Commands:\n")
	text, _, _ = strings.Cut(text, "\n\n")
	var all []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "help" {
			all = append(all, fields[0])
		}
	}
	slices.Sort(all)
	return all
}
