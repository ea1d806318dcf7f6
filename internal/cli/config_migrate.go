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
	"kubeadm/internal/state"
)

func newMigrateCommand(p *program) *cobra.Command {
	o := &migrateOptions{}
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
			return migrateConfig(p, c, o)
		},
	}
	targetsOf(o).bind(c.Flags())
	return c
}

// migrateOptions are the flags of "config migrate".
type migrateOptions struct {
	From         string `flag:"old-config"`
	To           string `flag:"new-config"`
	Experimental bool   `flag:"allow-experimental-api"`
}

// migrateConfig writes the documents of one file in the current API version to another, or to
// standard output.
func migrateConfig(p *program, c *cobra.Command, o *migrateOptions) (err error) {
	ctx := c.Context()
	file, err := readRequiredConfig(c.Context(), p.World(), flag.OldConfig, o.From)
	if err != nil {
		return err
	}
	file.AllowExperimental, file.AllowDeprecated = o.Experimental, true
	facts, err := runHost(p).Facts(ctx, run.Needs{Runtimes: true})
	if err != nil {
		return err
	}
	documents, how, err := config.Migrate(file, facts)
	warn(p, "config", how.Warnings...)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := writeYAML(&text, documents); err != nil {
		return err
	}
	if o.To == "" {
		_, err := p.Out.Write(text.Bytes())
		return err
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "config", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	// A configuration can contain tokens and keys.
	if err := r.NewEnv(engine.Env{}).Do(ctx, change.WriteFile{Path: o.To, Data: text.Bytes(),
		Mode: 0o600, Secret: true, Output: true}); err != nil {
		return problem.New(err,
			fmt.Sprintf("set --%s to a file that can be written", flag.NewConfig))
	}
	return nil
}

// readRequiredConfig reads the configuration file that a required flag names.
func readRequiredConfig(ctx context.Context, r state.Reader, by flag.Name,
	name string) (config.File, error) {
	if name == "" {
		return config.File{},
			problem.New(fmt.Errorf("--%s is required", by),
				fmt.Sprintf("set --%s to a configuration file", by))
	}
	return readConfigOf(ctx, r, by, name)
}
