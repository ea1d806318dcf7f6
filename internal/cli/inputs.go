package cli

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// runHost is what a run needs of the host, with a renderer for its events.
func runHost(p *program) run.Host {
	return run.Host{World: p.World(), Journal: p.Journal, Random: p.Random, NewKey: p.NewKey, Getenv: p.Getenv,
		Version: p.Version.GitVersion, Report: p.report}
}

// closeRun closes the run and adds what goes wrong with that to the error of the command.
func closeRun(r *run.Run, err *error) { *err = errors.Join(*err, r.Close()) }

// readConfigBesideFlags reads the configuration file, if the user names one. Flags beside it may be
// refused.
func readConfigBesideFlags(p *program, c *cobra.Command, name string,
	refuse func(flags []string) error) (config.File, error) {
	if name == "" && slices.Contains(givenFlags(c), string(flag.Config)) {
		warn(p, "config", "--config is empty, so it is ignored: set it to a file, or leave it out")
	}
	file, err := readConfig(c.Context(), p, p.World(), name)
	if err == nil && file.Given() {
		err = refuse(givenFlags(c))
	}
	return file, err
}

// neededFacts says which facts the configuration of a command is resolved from.
func neededFacts(c *cobra.Command, usesAddress bool) run.Needs {
	return run.Needs{Runtimes: c.Flag(string(flag.CRISocket)) != nil, Address: usesAddress}
}

// usesAddress reports whether one of the selected phases uses the address of this machine.
func usesAddress(phases []engine.Phase, sel engine.Selection) bool {
	uses := sel.Only == ""
	engine.Walk(phases, func(address string, p engine.Phase) {
		uses = uses || sel.Runs(address) &&
			(p.UsesAddress || slices.Contains(p.Flags, flag.APIServerAdvertise))
	})
	return uses
}

// readConfig reads the configuration file, if the user names one.
func readConfig(ctx context.Context, p *program, r state.Reader,
	name string) (config.File, error) {
	file, err := readConfigOf(ctx, r, flag.Config, name)
	file.Strict = p.strict
	return file, err
}

// readConfigOf reads the configuration file that a flag names, if it was given.
func readConfigOf(ctx context.Context, r state.Reader, by flag.Name,
	name string) (config.File, error) {
	if name == "" {
		return config.File{}, nil
	}
	data, err := r.ReadFile(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return config.File{},
			problem.New(fmt.Errorf("configuration file %s does not exist", untrusted.Line(name)),
				fmt.Sprintf("check the path given with --%s", by))
	case err != nil:
		return config.File{},
			problem.During("reading the configuration file", err,
				fmt.Sprintf("set --%s to a file that can be read", by))
	}
	return config.File{Name: name, Data: data}, nil
}

// warn warns of what was found outside of a run, as in a configuration.
func warn(p *program, phase string, warnings ...string) {
	for _, w := range warnings {
		p.report.Emit(engine.Event{Time: p.World().Now(), Kind: engine.Warned, Phase: phase, Text: w})
	}
}

// named is the value of --kubeconfig, or empty if the user did not set it.
func named(c *cobra.Command, kubeconfig string) string {
	if !c.Flags().Changed(string(flag.Kubeconfig)) {
		return ""
	}
	return kubeconfig
}

// envOfNode is the Env in which a command reads which node it runs on, before its run begins.
func envOfNode(ctx context.Context, p *program, r *run.Run, local node.Local, phase string) *engine.Env {
	return r.NewEnv(engine.Env{Local: local, Keys: newKeys(ctx, p.NewKey, "", 0)}).Named(phase)
}

// newKeys returns private keys of the cluster's algorithm, or of the default one if that is not known.
// The first ones are generated ahead of need.
func newKeys(ctx context.Context, generate func(pki.Algorithm) (crypto.Signer, error),
	algorithm pki.Algorithm, ahead int) func(pki.Need) (crypto.Signer, error) {
	return pki.NewKeyPool(ctx, generate, cmp.Or(algorithm, pki.DefaultAlgorithm), ahead, ahead).Key
}

// runChecks runs preflight checks, shows their warnings and returns their errors.
func runChecks(ctx context.Context, e *engine.Env, checks []preflight.Check) error {
	result := preflight.Run(ctx, e.Reader(), checks, e.Local.IgnoredChecks)
	for _, f := range result.Warnings() {
		e.Named("preflight").WarnCheck(f.Check, f.Message())
	}
	return result.Err()
}
