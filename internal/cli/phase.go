package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
)

// runFunc runs a command once its flags are parsed.
type runFunc = func(c *cobra.Command, args []string) error

// tree is a command that runs a workflow, with a subcommand for each phase.
type tree struct {
	name     string // "init", "upgrade apply"
	argument string // how help shows the argument; empty if there is none
	phases   []engine.Phase
	args     cobra.PositionalArgs
	// takesArgument reports whether the command of a phase has the argument too; nil for none
	takesArgument func(engine.Phase) bool
	// newRun returns the flags of a run of the selected phases, and the run itself.
	newRun func(sel engine.Selection) (flagTargets, runFunc)
}

// command is the command of the whole workflow: c with its phases, subcommands and flags, but for those
// that only phases have.
func (t tree) command(c *cobra.Command, onlyOfPhases ...flag.Name) *cobra.Command {
	c.Args = t.args
	c.Long += fmt.Sprintf("\n\nThe %q command runs these phases:\n```\n%s```", t.name, phaseOutline(t.phases))
	var v flagTargets
	v, c.RunE = t.newRun(engine.Selection{})
	v.without(onlyOfPhases...).bindOf(flag.Command(t.name), c.Flags())
	// every workflow has the flag
	_ = c.RegisterFlagCompletionFunc(string(flag.SkipPhases), someOf(childAddresses(t.phases)))
	phase := newGroup("phase", fmt.Sprintf("Run a single phase of %q", t.name))
	t.addPhaseCommands(phase, "", t.phases)
	c.AddCommand(phase)
	return c
}

// addPhaseCommands adds a command for each of the phases. A phase with children is a group of
// commands, of which "all" runs all of them.
func (t tree) addPhaseCommands(parent *cobra.Command, prefix string, phases []engine.Phase) {
	for _, p := range phases {
		address := prefix + p.Name
		switch {
		case p.Name == "":
			t.addPhaseCommands(parent, prefix, p.Phases)
		case p.Hidden:
		case len(childAddresses(p.Phases)) == 0: // others may be part of it
			parent.AddCommand(t.phaseCommand(address, p))
		default:
			group := newGroup(p.Name, p.Short)
			group.Long, group.Aliases = p.Long, p.Aliases
			group.AddCommand(t.phaseCommand(address, engine.Phase{Name: allName,
				Short: "Run all child phases: " + strings.Join(childAddresses(p.Phases), ", "),
				Flags: allFlags(p)}))
			t.addPhaseCommands(group, address+"/", p.Phases)
			parent.AddCommand(group)
		}
	}
}

func (t tree) phaseCommand(address string, p engine.Phase) *cobra.Command {
	c := &cobra.Command{Use: p.Name, Short: p.Short, Long: p.Long, Aliases: p.Aliases, Args: t.args}
	if p.NoArgs {
		c.Args = refuseArguments
	}
	if t.takesArgument != nil && t.takesArgument(p) {
		c.Use += " " + t.argument
	}
	var v flagTargets
	v, c.RunE = t.newRun(engine.Selection{Only: address})
	c.Example = t.example(address, p)
	if len(p.Flags) > 0 {
		v.bindOf(flag.Command(t.name), c.Flags(), p.Flags...)
	}
	return c
}

// example shows how to skip a phase, and how to run it alone unless it needs others before it.
func (t tree) example(address string, p engine.Phase) string {
	command := "kubeadm " + t.name
	text := "  # all phases except this one\n  " + command + " --skip-phases=" + address
	if len(p.Needs) > 0 {
		return text
	}
	alone := "  " + command + " phase " + strings.ReplaceAll(address, "/", " ")
	if p.Name == allName {
		alone += " " + allName
	}
	if slices.Contains(p.Flags, flag.Config) {
		alone += " --config kubeadm.yaml"
	}
	return "  # only this phase\n" + alone + "\n\n" + text
}

// allName is the subcommand of a group that runs all of its phases.
const allName = "all"

// allFlags are the flags of a whole group: its own, or else those of all children.
func allFlags(p engine.Phase) []flag.Name {
	if len(p.Flags) > 0 {
		return p.Flags
	}
	var all []flag.Name
	engine.Walk(p.Phases, func(_ string, child engine.Phase) { all = append(all, child.Flags...) })
	slices.Sort(all)
	return slices.Compact(all)
}

func childAddresses(phases []engine.Phase) []string {
	var all []string
	engine.Walk(phases, func(address string, p engine.Phase) {
		if !p.Hidden {
			all = append(all, address)
		}
	})
	return all
}

// phaseOutline lists the phases as users name them, with children indented.
func phaseOutline(phases []engine.Phase) string {
	type line struct{ name, short string }
	var lines []line
	width := 0
	engine.Walk(phases, func(address string, p engine.Phase) {
		if p.Hidden {
			return
		}
		indent, name := "", p.Name
		if depth := strings.Count(address, "/"); depth > 0 {
			indent, name = strings.Repeat("  ", depth), "/"+p.Name
		}
		width = max(width, len(indent+name))
		lines = append(lines, line{indent + name, indent + p.Short})
	})
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%-*s  %s\n", width, l.name, l.short)
	}
	return b.String()
}
