package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/run"
)

func newValidateCommand(p *program) *cobra.Command {
	var name string
	var deprecated, experimental bool
	c := &cobra.Command{
		Use:   "validate",
		Short: "Check a configuration file",
		Long: `Check a configuration file in the same way as the commands that read it. Print "ok" if it is valid, or every
error and its field if it is not.`,
		Example: `  kubeadm config validate --config kubeadm.yaml`,
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			file, err := readRequiredConfig(c.Context(), p.World(), flag.Config, name)
			if err != nil {
				return err
			}
			file.AllowDeprecated, file.AllowExperimental, file.ReportComponentProblems = deprecated,
				experimental, true
			facts, err := runHost(p).Facts(c.Context(), run.Needs{})
			if err != nil {
				return err
			}
			_, how, err := config.Migrate(file, facts)
			warn(p, "config", how.Warnings...)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(p.Out, "ok")
			return err
		},
	}
	flagTargets{flag.Config: &name, flag.AllowDeprecatedAPI: &deprecated,
		flag.AllowExperimentalAPI: &experimental}.bind(c.Flags())
	return c
}
