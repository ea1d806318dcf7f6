package cli

import "github.com/spf13/cobra"

// addUnderHeading adds commands to root, under a heading in its help.
func addUnderHeading(root *cobra.Command, heading string, children ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: heading, Title: heading})
	for _, c := range children {
		c.GroupID = heading
	}
	root.AddCommand(children...)
}

// helpCommand is "kubeadm help". Unlike cobra's it fails if there is no such command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Show the help of a command",
		Long:  "Show the help of a command, just as its --help flag does.",
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
			found.InitDefaultHelpFlag() // cobra adds it only to a command that is run
			return found.Help()
		},
	}
}
