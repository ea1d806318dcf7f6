package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/doctor"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
)

// doctorOptions are the flags of "kubeadm doctor".
type doctorOptions struct {
	output
	kubeconfig, bundle string
	fix, yes, dryRun   bool
}

func newDoctorCommand(p *program) *cobra.Command {
	o := &doctorOptions{output: newOutput()}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what is wrong with this machine, node and cluster",
		Long: `Find out what is wrong with this machine, its node and its cluster, and how to fix it. Without --fix, it
changes nothing. The command works on any machine, before and after init or join, and while the API server is down.
It takes at most five seconds.

Each finding shows the evidence, the impact and, if there is one, the command that fixes it. The output lists the checks
that cannot run on this machine, each with the reason. The command connects to the cluster with admin.conf or, on a
worker, with kubelet.conf, which has only limited access.

--fix makes only safe changes: it sets sysctls, loads kernel modules, and starts and enables services. The changes take
effect immediately and persist across reboots. kubeadm first shows the changes and asks for confirmation. It asks
separately before turning off swap or turning on IPv6 forwarding; --yes does not skip these prompts. It undoes a fix
that it cannot complete, and fixes nothing while another kubeadm command is changing this machine.

--bundle writes a support bundle: the findings, logs, manifests, configuration and cluster objects, with private keys,
tokens, passwords and Secrets left out. It cannot recognize every secret, so review the bundle before you share it.

Exit codes: 0 if no error was found (there may be warnings), 2 if an error was found, 1 if the command failed.`,
		Example: `  kubeadm doctor

  # prepare a machine for kubeadm init or kubeadm join
  kubeadm doctor --fix

  # print what would change
  kubeadm doctor --fix --dry-run

  # for monitoring
  kubeadm doctor -o json

  # for a bug report
  kubeadm doctor --bundle kubeadm-bundle.tar.gz`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return runDoctor(p, c, o) },
	}
	targets := o.output.values()
	targets[flag.Kubeconfig], targets[flag.Bundle] = &o.kubeconfig, &o.bundle
	targets[flag.Fix], targets[flag.Yes], targets[flag.DryRun] = &o.fix, &o.yes, &o.dryRun
	targets.bind(c.Flags())
	describeOutputFormats(c.Flags())
	return c
}

// check refuses flags that do not fit together.
func (o *doctorOptions) check(asObject bool) error {
	for _, needsFix := range []struct {
		name flag.Name
		set  bool
	}{{flag.DryRun, o.dryRun}, {flag.Yes, o.yes}} {
		if needsFix.set && !o.fix {
			return problem.New(fmt.Errorf("--%s has no effect without --%s",
				needsFix.name, flag.Fix), fmt.Sprintf("set --%s, or leave out --%s", flag.Fix, needsFix.name))
		}
	}
	if o.fix && asObject && !o.yes && !o.dryRun {
		return problem.New(fmt.Errorf("--%s asks for confirmation, which a program that reads --%s cannot give",
			flag.Fix, flag.Output), fmt.Sprintf("set --%s", flag.Yes))
	}
	return nil
}

func runDoctor(p *program, c *cobra.Command, o *doctorOptions) (err error) {
	ctx := c.Context()
	encode, err := o.encoder(ctx, p.World())
	if err == nil {
		err = o.check(encode != nil)
	}
	if err != nil {
		return err
	}
	settings, _, err := config.ReadUpgradePlan(config.File{}, config.NewUpgradePlanFlags())
	if err != nil {
		return err
	}
	local := node.Local{Paths: node.DefaultPaths(), Timeouts: settings.Timeouts}
	h := runHost(p)
	if encode != nil {
		p.report.Text.Out = p.Err
	}
	// It reads beside another command of this machine, which may be the one that hangs.
	r, err := run.Open(ctx, h, run.Command{Name: "doctor", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	if err := checkRoot(ctx, p.World()); err != nil {
		return err
	}
	as := state.Identity{}
	if c.Flags().Changed(string(flag.Kubeconfig)) {
		warnOfForeignClient(ctx, p, c, p.World(), o.kubeconfig)
		as = readIdentity(ctx, p, p.World(), o.kubeconfig)
	}
	if err := r.Begin(ctx, &node.Node{Local: local}, config.RunOptions{DryRun: o.dryRun}); err != nil {
		return err
	}
	silent := r.NewEnv(engine.Env{Local: local, Emit: func(engine.Event) {}})
	d, err := doctor.Diagnose(ctx, silent, as)
	if err != nil {
		return err
	}
	if o.fix {
		if encode == nil {
			if err := writeDiagnosis(p.Out, d); err != nil {
				return err
			}
		}
		if d, err = fixFindings(ctx, p, r, o, diagnosed{d, silent, as}); err != nil {
			return err
		}
	}
	d.TypeMeta = outputMeta("Diagnosis")
	if o.bundle != "" {
		data, err := doctor.Bundle(ctx, silent, as, d)
		if err != nil {
			return err
		}
		if err := r.NewEnv(engine.Env{Local: local}).Named("doctor").Do(ctx, change.WriteFile{
			Path: o.bundle, Data: data, Mode: 0o600, Secret: true, Output: true}); err != nil {
			return problem.During("writing the support bundle", err,
				fmt.Sprintf("set --%s to a file in a directory that exists", flag.Bundle))
		}
		r.Emit(engine.Info, "the support bundle is "+o.bundle+
			"; anything that looks like a secret is hidden, but review it before you share it")
	}
	if encode != nil {
		err = encode(p.Out, []any{d})
	} else {
		err = writeDiagnosis(p.Out, d)
	}
	if err != nil || !d.HasErrors() {
		return err
	}
	return foundErrors(d)
}

// foundErrors is the error of a command that has found errors.
func foundErrors(d doctor.Diagnosis) error {
	count := 0
	for _, f := range d.Findings {
		if f.Severity == doctor.Error {
			count++
		}
	}
	err := problem.New(fmt.Errorf("found %s", counted(count, "error")))
	if len(d.Fixes()) > 0 {
		err.Hints = []string{"review and apply the safe fixes: kubeadm doctor --fix"}
	}
	err.Code = problem.ExitFound
	return err
}

// checkRoot is an error for other users: they cannot read keys and the container runtime.
func checkRoot(ctx context.Context, r state.Reader) error {
	host, err := r.Host(ctx)
	if err == nil && host.UserID != 0 {
		err = problem.New(fmt.Errorf("kubeadm must run as root, but runs as user ID %d", host.UserID),
			host.Platform.RunAsRootHint())
	}
	return err
}

// diagnosed is a diagnosis and how it was made.
type diagnosed struct {
	doctor.Diagnosis
	env *engine.Env
	as  state.Identity
}

// fixFindings shows the fixes, asks, does them and diagnoses again. The dry run shows them as changes.
func fixFindings(ctx context.Context, p *program, r *run.Run, o *doctorOptions,
	before diagnosed) (doctor.Diagnosis, error) {
	var fixes []doctor.Fix
	for _, f := range before.Fixes() {
		text := "to fix: " + f.Text
		for _, c := range f.Changes {
			text += "\n" + c.String()
		}
		r.Emit(engine.Info, text)
		switch {
		case f.Risk != "" && o.yes:
			r.Emit(engine.Warned, fmt.Sprintf("not done, because --%s does not skip this prompt: %s",
				flag.Yes, f.Text))
		case f.Risk != "" && !o.dryRun:
			if err := confirm(ctx, p, r, f.Risk+": "+f.Text, flag.Fix); err != nil {
				if ctx.Err() != nil {
					return before.Diagnosis, err
				}
				continue
			}
			fixes = append(fixes, f)
		default:
			fixes = append(fixes, f)
		}
	}
	if len(fixes) == 0 {
		r.Emit(engine.Info, "nothing was changed: nothing can be fixed safely")
		return before.Diagnosis, nil
	}
	if !o.yes && !o.dryRun {
		if err := confirm(ctx, p, r, "the changes above are about to be made", flag.Yes); err != nil {
			return before.Diagnosis, err
		}
	}
	if !o.dryRun {
		if err := r.Lock(ctx); err != nil {
			return before.Diagnosis, err
		}
	}
	var failed []error
	for _, f := range fixes {
		e := r.NewEnv(engine.Env{Local: before.env.Local})
		if err := r.ExecutePhases(ctx, e, []engine.Phase{f.Phase()}, engine.Selection{}); err != nil {
			failed = append(failed, err)
		}
	}
	if err := errors.Join(failed...); err != nil || o.dryRun {
		return before.Diagnosis, err
	}
	return doctor.DiagnoseAfter(ctx, before.env, before.as, fixes)
}
