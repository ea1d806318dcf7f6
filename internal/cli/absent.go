package cli

import "github.com/spf13/cobra"

// alphaCommand is the place of commands that are on trial; scripts ask for its help to learn which there are.
func alphaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "alpha",
		Short: "Commands on trial; there are none at present",
		Long:  "Commands on trial, which may change or go without notice. There are none at present.",
	}
}
