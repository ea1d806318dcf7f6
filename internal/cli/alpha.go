package cli

import "github.com/spf13/cobra"

// alphaCommand has the experimental commands. Scripts read its help to learn which there are.
func alphaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "alpha",
		Short: "Experimental commands; currently none",
		Long:  "Experimental commands, which may change or be removed without notice. Currently there are none.",
	}
}
