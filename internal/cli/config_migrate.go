package cli

import (
	"bytes"
	"context"
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
		Long: `Convert a configuration file to the current API version, kubeadm.k8s.io/v1beta4. Files of
kubeadm.k8s.io/v1beta3 are accepted. The output has all defaults filled in, including the name, the address and
the container runtime of this machine.

Component configurations are checked and not converted.`,
		Example: `  kubeadm config migrate --old-config old.yaml --new-config kubeadm.yaml`,
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := p.migrateConfig(c, from, experimental)
			if err != nil {
				return err
			}
			if to == "" {
				_, err := p.Out.Write(text)
				return err
			}
			// A configuration can contain tokens and keys.
			return p.writeOutput(c.Context(),
				change.WriteFile{Path: to, Data: text, Mode: 0o600, Secret: true, Output: true})
		},
	}
	flagTargets{flag.OldConfig: &from, flag.NewConfig: &to,
		flag.AllowExperimentalAPI: &experimental}.bind(c.Flags())
	return c
}

// writeOutput writes the file that the user named for the result.
func (p *program) writeOutput(ctx context.Context, file change.WriteFile) (err error) {
	r, err := p.openRun(ctx, run.Command{Name: "config", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	if err := r.NewEnv(engine.Env{}).Do(ctx, file); err != nil {
		return problem.New("", err,
			fmt.Sprintf("set --%s to a file that can be written", flag.NewConfig))
	}
	return nil
}

// migrateConfig returns the file's documents in the current API version.
func (p *program) migrateConfig(c *cobra.Command, name string, experimental bool) ([]byte, error) {
	file, err := p.readRequiredConfig(c, flag.OldConfig, name)
	if err != nil {
		return nil, err
	}
	file.AllowExperimental, file.AllowDeprecated = experimental, true
	facts, err := p.gatherFacts(c.Context(), true)
	if err != nil {
		return nil, err
	}
	facts.AddressOptional = true
	documents, how, err := config.Migrate(file, facts)
	printWarnings(p.newText(), how.Warnings)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = writeYAML(&text, documents)
	return text.Bytes(), err
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
