package cli

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
)

func (p *program) configMigrate() *cobra.Command {
	var from, to string
	var experimental bool
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Convert a configuration file to the current API version",
		Long: `Convert a configuration file from kubeadm.k8s.io/v1beta3 to the current API version,
kubeadm.k8s.io/v1beta4. The output has all defaults filled in, including the name, the address and the container
runtime of this machine.

Component configurations are checked and copied to the output as they are.`,
		Example: `  kubeadm config migrate --old-config old.yaml --new-config kubeadm.yaml`,
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.migrateConfig(c, from, to, experimental)
		},
	}
	flagTargets{flag.OldConfig: &from, flag.NewConfig: &to,
		flag.AllowExperimentalAPI: &experimental}.bind(c.Flags())
	return c
}

// migrateConfig writes the documents of one file in the current API version to another, or to
// standard output.
func (p *program) migrateConfig(c *cobra.Command, from, to string, experimental bool) (err error) {
	ctx := c.Context()
	file, err := p.readRequiredConfig(c, flag.OldConfig, from)
	if err != nil {
		return err
	}
	file.AllowExperimental, file.AllowDeprecated = experimental, true
	facts, err := p.runHost().Facts(ctx, run.Needs{Runtimes: true})
	if err != nil {
		return err
	}
	documents, how, err := config.Migrate(file, facts)
	p.warn("config", how.Warnings...)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := writeYAML(&text, documents); err != nil {
		return err
	}
	if to == "" {
		_, err := p.Out.Write(text.Bytes())
		return err
	}
	r, err := run.Open(ctx, p.runHost(), run.Command{Name: "config", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	// A configuration can contain tokens and keys.
	if err := r.NewEnv(engine.Env{}).Do(ctx, change.WriteFile{Path: to, Data: text.Bytes(),
		Mode: 0o600, Secret: true, Output: true}); err != nil {
		return problem.New("", err,
			fmt.Sprintf("set --%s to a file that can be written", flag.NewConfig))
	}
	return nil
}

// readRequiredConfig reads the configuration file that a required flag names.
func (p *program) readRequiredConfig(c *cobra.Command, by flag.Name,
	name string) (config.File, error) {
	if name == "" {
		return config.File{},
			problem.New("", fmt.Errorf("--%s is required", by),
				fmt.Sprintf("set --%s to a configuration file", by))
	}
	return readConfigOf(c.Context(), p.World(), by, name)
}
