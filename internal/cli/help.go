package cli

import "github.com/spf13/cobra"

// addUnderHeading puts commands below root, under a heading of their own in its help.
func addUnderHeading(root *cobra.Command, heading string, children ...*cobra.Command) {
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
			return someOf(commandNames(found))(c, args, typed)
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil {
				return err
			}
			if err := refuseArguments(found, rest); err != nil {
				return err
			}
			found.InitDefaultHelpFlag() // cobra makes it when a command is run, and this one is not
			return found.Help()
		},
	}
}
