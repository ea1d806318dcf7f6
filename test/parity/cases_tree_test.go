package parity

import (
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/cli"
)

// treeCases compare the help of every command: its subcommands, aliases, arguments and flags. The
// commands are ours; a command that only upstream has shows in the help of its parent.
func treeCases() []testCase {
	var list []testCase
	root := cli.New(cli.Host{Out: io.Discard, Err: io.Discard,
		Getenv: func(string) (string, bool) { return "", false }})
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		name := "help " + c.Name()
		if c == root {
			name = "help"
		}
		test := testCase{name: name}
		add := func(c *cobra.Command) {
			path := strings.Fields(c.CommandPath())[1:]
			test.steps = append(test.steps,
				step{append(path, "--help"), asHelp(strings.Join(path, " "))})
		}
		if add(c); c != root {
			walkCommands(c, add)
		}
		list = append(list, test)
	}
	return list
}

func walkCommands(c *cobra.Command, visit func(*cobra.Command)) {
	for _, child := range c.Commands() {
		if !child.Hidden {
			visit(child)
			walkCommands(child, visit)
		}
	}
}

// A flag in a help text: letter, name and type, and at the end the default.
var (
	flagLine    = regexp.MustCompile(`^ +(?:-(\w), )?--([\w-]+)(?: ([\w=]+))?(?:  +\S|$)`)
	flagDefault = regexp.MustCompile(`\(default (.*)\)$`)
	usageLine   = regexp.MustCompile(`(?m)^Usage:\n  kubeadm(.*)$`)
	aliasLine   = regexp.MustCompile(`(?m)^Aliases:\n  (.*)$`)
	commandLine = regexp.MustCompile(`(?m)^  ([a-z][\w.-]*) +[A-Z]`)
)

// usageSuffixes removes parts of a usage line that are compared elsewhere.
var usageSuffixes = strings.NewReplacer("[flags]", "", "[command]", "")

// asHelp reads the help of a command, without its descriptions. Global flags are those of the
// root.
func asHelp(command string) outputReader {
	return func(r factCollector, _ string, s commandResult) {
		at := "help of " + command
		r.add(at, "help")
		for name, line := range map[string]*regexp.Regexp{"usage": usageLine,
			"aliases": aliasLine} {
			if m := line.FindStringSubmatch(s.Out); m != nil {
				r.add(at+"/"+name, strings.TrimSpace(usageSuffixes.Replace(m[1])))
			}
		}
		_, commands, _ := strings.Cut(s.Out, "\nUsage:\n")
		commands, _, _ = strings.Cut(commands, "\nFlags:\n")
		_, commands, _ = strings.Cut(commands, ":\n") // one heading or several
		for _, m := range commandLine.FindAllStringSubmatch(commands, -1) {
			r.add(at+"/command/"+m[1], "yes")
		}
		own, _, _ := strings.Cut(s.Out, "Global Flags:")
		r.flags(at, own)
	}
}

func (r factCollector) flags(at, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		m := flagLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		value := ""
		if d := flagDefault.FindStringSubmatch(line); d != nil && m[2] != "feature-gates" {
			value = " default " + strings.Trim(d[1], `"`)
		}
		r.add(at+"/flag/"+m[2], strings.TrimSpace(m[1]+" "+m[3]+value))
	}
}
