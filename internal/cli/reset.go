package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/workflow"
)

func newResetCommand(p *program) *cobra.Command {
	t := tree{name: "reset", phases: workflow.Reset, args: cobra.ArbitraryArgs}
	t.newRun = func(sel engine.Selection) (flagTargets, runFunc) {
		o := &resetOptions{ResetFlags: config.NewResetFlags(),
			Kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
		o.LeaveCluster = sel.Only == string(phaseindex.LeaveCluster)
		return targetsOf(o), func(c *cobra.Command, args []string) error {
			for _, arg := range args { // which upstream's kubeadm accepts as well
				warn(p, "config",
					fmt.Sprintf("%s takes no argument: %q is ignored", c.CommandPath(), arg))
			}
			return runReset(p, c, o, sel)
		}
	}
	return withRunOutput(p, t.command(&cobra.Command{
		Use:   "reset",
		Short: "Undo what init or join did to this machine",
		Long: `Undo, as far as possible, what "kubeadm init" or "kubeadm join" did to this machine.
The command asks for confirmation unless --force is set. When it finishes, it lists
what it left behind.`,
		Example: `  # print what would be removed
  kubeadm reset --dry-run

  # skip the confirmation prompt
  kubeadm reset --force

  # also remove the user's kubeconfig and anything that CNI plugins and kube-proxy set up
  kubeadm reset --clean=all

  # drain this worker, delete its Node object and reset it
  kubeadm reset --leave-cluster --kubeconfig=admin.conf`,
	}, flag.KubeconfigDir, flag.NodeName))
}

// resetOptions are the flags of reset and its phases.
type resetOptions struct {
	config.ResetFlags
	File       string `flag:"config"`
	Kubeconfig string `flag:"kubeconfig"`
}

// runReset is "kubeadm reset", or one of its phases.
func runReset(p *program, c *cobra.Command, o *resetOptions, sel engine.Selection) (err error) {
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p),
		run.Command{Name: "reset", Phases: workflow.Reset, Selection: sel})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	file, err := readConfigBesideFlags(p, c, o.File, o.RefuseMixed)
	if err != nil {
		return err
	}
	facts, err := r.Facts(ctx, neededFacts(c, true))
	if err != nil {
		return err
	}
	resolved, how, err := config.Reset(file, o.ResetFlags, facts)
	r.Warn(how.Warnings...)
	if err != nil {
		return err
	}

	n := &node.Node{Local: resolved.Local}
	if err := r.Begin(ctx, n, how); err != nil {
		return err
	}
	if err := checkResetPhases(r, o); err != nil {
		return err
	}
	warnOfForeignClient(ctx, p, c, p.World(), o.Kubeconfig)
	admin := readIdentity(ctx, p, p.World(), o.Kubeconfig)
	e := r.NewEnv(engine.Env{
		Local: n.Local, Intent: &resolved, Node: engine.Resolved(n),
		Admin: engine.As(admin),
	})
	// The question belongs to the preflight phase.
	if r.Runs(phaseindex.Preflight) && !r.IsDryRun() && !resolved.Force {
		if err := engine.Run(ctx, e, workflow.BeforeReset, engine.Selection{}); err != nil {
			return err
		}
		if err := confirm(ctx, p, r,
			"the changes that init or join made to this machine are about to be reverted",
			flag.Force); err != nil {
			return err
		}
	}
	if err := r.Execute(ctx, e); err != nil || r.IsDryRun() || !r.IsWhole() {
		return err
	}
	return engine.Run(ctx, e, workflow.AfterReset, engine.Selection{})
}

// checkResetPhases returns an error if a phase is skipped that a flag needs.
func checkResetPhases(r *run.Run, o *resetOptions) error {
	for _, need := range []struct {
		flag  flag.Name
		set   bool
		phase phaseindex.Address
	}{
		{flag.Clean, len(o.Clean) > 0, phaseindex.CleanupNode},
		{flag.LeaveCluster, o.LeaveCluster, phaseindex.LeaveCluster},
	} {
		if need.set && !r.Runs(need.phase) {
			return problem.New(fmt.Errorf("--%s needs phase %s, which is skipped", need.flag,
				need.phase), fmt.Sprintf("leave out --%s, or do not skip the phase", need.flag))
		}
	}
	return nil
}
