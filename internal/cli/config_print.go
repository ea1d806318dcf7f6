package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
)

func newPrintDefaultsCommand(p *program) *cobra.Command {
	var components []string
	forInit := printExample(p.Out, "init-defaults", "init", func(*cobra.Command) ([]any, error) {
		tool, err := ownRelease(p)
		if err != nil {
			return nil, err
		}
		all, err := config.ExampleInit(tool, components)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag.ComponentConfigs, err)
		}
		return all, nil
	})
	flagTargets{flag.ComponentConfigs: &components}.bind(forInit.Flags())
	return newGroup("print", "Print default configuration files",
		forInit,
		printExample(p.Out, "join-defaults", "join", func(c *cobra.Command) ([]any, error) {
			host, err := p.World().Host(c.Context())
			return config.ExampleJoin(host.Hostname, host.Platform), err
		}),
		printExample(p.Out, "reset-defaults", "reset", func(c *cobra.Command) ([]any, error) {
			host, err := p.World().Host(c.Context())
			return config.ExampleReset(host.Platform), err
		}),
		printExample(p.Out, "upgrade-defaults", "upgrade",
			func(*cobra.Command) ([]any, error) { return config.ExampleUpgrade(), nil }))
}

// printExample is a command that prints an example configuration.
func printExample(out io.Writer, use, command string,
	documents func(*cobra.Command) ([]any, error)) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: "Print a default configuration file for " + command,
		Long: "Print a configuration file for \"kubeadm " + command + `" with all defaults.
Values that have no default, such as a token or an address, are examples: replace them. You can remove
any field that you leave at its default.`,
		Example: "  kubeadm config print " + use + " >kubeadm.yaml",
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := documents(c)
			if err != nil {
				return err
			}
			return writeYAML(out, all)
		},
	}
}
