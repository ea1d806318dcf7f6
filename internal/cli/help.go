package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kubeadm/internal/config/strict"
	"kubeadm/internal/problem"
)

// adopt puts commands below root, under a heading of their own in its help.
func adopt(root *cobra.Command, heading string, children ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading})
	for _, c := range children {
		c.GroupID = heading
	}
	root.AddCommand(children...)
}

// helpCommand is "kubeadm help": unlike cobra's own it fails where there is no such command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Tell what a command does",
		Long:  "Tell what a command does and which flags it has, as its flag --help does.",
		Example: `  kubeadm help
  kubeadm help token create`,
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			found, _, err := c.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return someOf(names(found))(c, args, typed)
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if err := known(found, rest); err != nil {
				return err
			}
			found.InitDefaultHelpFlag() // cobra makes it when a command is run, and this one is not
			return found.Help()
		},
	}
}

// badFlag is the error of a flag that cannot be taken, with what was probably meant.
func badFlag(c *cobra.Command, err error) error {
	hints := []string{c.CommandPath() + " --help lists the flags"}
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		var there []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				there = append(there, f.Name)
			}
		})
		if near := strict.Nearest(missing.GetSpecifiedName(), there); near != "" {
			hints = append([]string{"did you mean --" + near + "?"}, hints...)
		}
	}
	return problem.New("", err, hints...)
}
