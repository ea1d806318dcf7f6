package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
)

// tree is a command that runs a workflow, with a subcommand for each phase.
type tree struct {
	name   string // "init"; with its argument, which a phase that looks for the cluster takes too
	phases []flow.Phase
	args   cobra.PositionalArgs
	// newRun gives a run of the selected phases its flags; run is called once they were read.
	newRun func(sel flow.Selection) (v flagTargets, run func(c *cobra.Command, args []string) error)
}

// command is the whole workflow. c says how the user finds it and what for; names are its flags.
func (t tree) command(c *cobra.Command, names ...flag.Name) *cobra.Command {
	c.Args = t.args
	c.Long += fmt.Sprintf("\n\nThe \"%s\" command runs these phases:\n```\n%s```", t.name, phaseOutline(t.phases))
	var v flagTargets
	v, c.RunE = t.newRun(flow.Selection{})
	v.bind(c.Flags(), names...)
	_ = c.RegisterFlagCompletionFunc(string(flag.SkipPhases), someOf(childAddresses(t.phases))) // every workflow has the flag
	phase := newGroup("phase", fmt.Sprintf("Run a single phase of %q", strings.Fields(t.name)[0]))
	t.addPhaseCommands(phase, "", t.phases)
	c.AddCommand(phase)
	return c
}

// addPhaseCommands adds a command for each of the phases.
func (t tree) addPhaseCommands(parent *cobra.Command, prefix string, phases []flow.Phase) {
	for _, p := range phases {
		switch {
		case p.Name == "":
			t.addPhaseCommands(parent, prefix, p.Phases)
		case p.Hidden:
		case len(childAddresses(p.Phases)) == 0: // others may be part of it
			parent.AddCommand(t.phaseCommand(prefix+p.Name, p))
		default:
			parent.AddCommand(t.groupCommand(prefix+p.Name, p))
		}
	}
}

// groupCommand is a phase of phases; "all" runs them all.
func (t tree) groupCommand(address string, p flow.Phase) *cobra.Command {
	c := newGroup(p.Name, p.Short)
	c.Long, c.Aliases = p.Long, p.Aliases
	all := flow.Phase{Name: allName, Short: "Run all of: " + strings.Join(childAddresses(p.Phases), ", "), Flags: allFlags(p)}
	c.AddCommand(t.phaseCommand(address, all))
	t.addPhaseCommands(c, address+"/", p.Phases)
	return c
}

func (t tree) phaseCommand(address string, p flow.Phase) *cobra.Command {
	c := &cobra.Command{Use: p.Name, Short: p.Short, Long: p.Long, Aliases: p.Aliases, Args: t.args}
	if p.NoArgs {
		c.Args = refuseArguments
	}
	if _, argument, ok := strings.Cut(t.name, " "); ok && slices.Contains(p.Flags, flag.DiscoveryToken) {
		c.Use += " " + argument
	}
	var v flagTargets
	v, c.RunE = t.newRun(flow.Selection{Only: address})
	c.Example = t.example(address, p)
	if len(p.Flags) > 0 {
		v.bind(c.Flags(), p.Flags...)
	}
	return c
}

// example shows how to run a phase alone, unless it needs others before it, and how to leave it out.
func (t tree) example(address string, p flow.Phase) string {
	command := "kubeadm " + strings.Fields(t.name)[0]
	text := "  # everything but this\n  " + command + " --skip-phases=" + address
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
	return "  # this alone\n" + alone + "\n\n" + text
}

// allName is the phase of a group that stands for all others of it.
const allName = "all"

// allFlags are the flags of running a whole group: those it states itself, or those of any child.
func allFlags(p flow.Phase) []flag.Name {
	if len(p.Flags) > 0 {
		return p.Flags
	}
	var all []flag.Name
	flow.Walk(p.Phases, func(_ string, child flow.Phase) { all = append(all, child.Flags...) })
	slices.Sort(all)
	return slices.Compact(all)
}

func childAddresses(phases []flow.Phase) []string {
	var all []string
	flow.Walk(phases, func(address string, _ flow.Phase) { all = append(all, address) })
	return all
}

// phaseOutline lists the phases as a user may name them, those inside others indented.
func phaseOutline(phases []flow.Phase) string {
	type line struct{ name, short string }
	var lines []line
	width := 0
	flow.Walk(phases, func(address string, p flow.Phase) {
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
