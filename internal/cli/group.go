package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/untrusted"
)

// newGroup is a command that only has subcommands.
func newGroup(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := c.Help(); err != nil {
				return err
			}
			return errors.New("a subcommand is required: " + strings.Join(commandNames(c), ", "))
		},
	}
	c.AddCommand(children...)
	return c
}

// refuseArguments is an error if a command that takes no arguments has some, such as a misspelled
// subcommand.
func refuseArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if _, err := release.ParseTarget(args[0]); err == nil &&
		strings.HasPrefix(c.CommandPath(), "kubeadm upgrade node") {
		return problem.New(fmt.Errorf("%s takes no version, but got %s", c.CommandPath(),
			untrusted.Quote(args[0])),
			"leave it out: a node is upgraded to the version of its cluster, which "+
				"\"kubeadm upgrade apply\" sets")
	}
	for _, file := range []flag.Name{flag.Config, flag.OldConfig} {
		if f := c.Flag(string(file)); f != nil && !f.Changed && strings.ContainsAny(args[0], "./") {
			return problem.New(fmt.Errorf("%s takes no arguments, but got %s", c.CommandPath(),
				untrusted.Quote(args[0])),
				fmt.Sprintf("to read a file, set --%s=%s", file, untrusted.Line(args[0])))
		}
	}
	if !c.HasSubCommands() {
		return fmt.Errorf("%s takes no arguments, but got %s", c.CommandPath(),
			untrusted.Quote(args[0]))
	}
	c.SuggestionsMinimumDistance = 2 // wrong letters
	err := fmt.Errorf("unknown command %s for %q", untrusted.Quote(args[0]), c.CommandPath())
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return problem.New(err, "did you mean "+strings.Join(near, " or ")+"?")
	}
	return problem.New(err, "list the commands: "+c.CommandPath()+" --help")
}

func commandNames(c *cobra.Command) []string {
	var all []string
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			all = append(all, child.Name())
		}
	}
	return all
}
