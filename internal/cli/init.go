package cli

import (
	"context"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/run"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/workflow"
)

func newInitCommand(p *program) *cobra.Command {
	t := tree{name: "init", phases: workflow.Init, args: refuseArguments}
	t.newRun = func(sel engine.Selection) (flagTargets, runFunc) {
		o := newInitOptions()
		return targetsOf(o), func(c *cobra.Command, _ []string) error { return runInit(p, c, o, sel) }
	}
	return withRunOutput(p, t.command(&cobra.Command{
		Use:   "init",
		Short: "Initialize the first control plane node of a new cluster",
		Long: `Initialize this machine as the first control plane node of a new cluster. When the command
finishes, it prints instructions for using the cluster and joining other machines to it.

With --from-backup, kubeadm uses an archive to rebuild a cluster whose control plane machines are gone. This machine
becomes its first control plane node. The CAs, the service account keys, the configuration and the etcd data come from
the archive; new certificates are generated for this machine. Flags and the --config file can override any setting that
neither the restored data nor the other nodes depend on. Other machines then join as usual, and workers reconnect on
their own once the control plane endpoint points to the new machines.`,
		Example: `  # set the Pod network CIDR
  kubeadm init --pod-network-cidr=10.244.0.0/16

  # highly available, behind a load balancer: more control plane nodes can join later
  kubeadm init --control-plane-endpoint=cluster.example:6443 --upload-certs

  # print what would change, using a configuration file
  kubeadm init --config kubeadm.yaml --dry-run

  # rebuild a cluster on new machines, beginning with this one
  kubeadm init --from-backup cluster.tar.age --identity-file key.txt --upload-certs`,
	}, flag.APIServerExtraArgs, flag.ControllerManagerArgs, flag.Kubeconfig, flag.KubeconfigDir,
		flag.PrintManifest, flag.SchedulerExtraArgs))
}

// initOptions are the flags of init and its phases.
type initOptions struct {
	config.InitFlags
	File                   string `flag:"config"`
	Kubeconfig             string `flag:"kubeconfig"`
	PrintManifest          bool   `flag:"print-manifest"`
	WithholdToken          bool   `flag:"skip-token-print"`
	WithholdCertificateKey bool   `flag:"skip-certificate-key-print"`
	FromBackup             string `flag:"from-backup"`
	RemoveOldControlPlane  bool   `flag:"remove-old-control-plane"`
	IdentityFile           string `flag:"identity-file"`
	PassphraseFile         string `flag:"passphrase-file"`
}

func newInitOptions() *initOptions {
	o := &initOptions{InitFlags: config.NewInitFlags()}
	o.KubeconfigDir = node.DefaultPaths().Kubeconfigs
	o.Kubeconfig = node.DefaultPaths().Kubeconfig("admin.conf")
	return o
}

func (o *initOptions) withhold() engine.Withhold {
	return engine.Withhold{Token: o.WithholdToken, CertificateKey: o.WithholdCertificateKey}
}

// runInit is "kubeadm init", or one of its phases.
func runInit(p *program, c *cobra.Command, o *initOptions, sel engine.Selection) (err error) {
	ctx := c.Context()
	phases, backup, err := o.phases()
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, runHost(p), run.Command{
		Name: "init", Phases: phases, Selection: sel, Journaled: true,
		Unlocked: o.PrintManifest,
	})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	file, err := readConfigBesideFlags(p, c, o.File, o.RefuseMixed)
	if err != nil {
		return err
	}
	facts, err := r.Facts(ctx, neededFacts(c, usesAddress(phases, sel)))
	if err != nil {
		return err
	}
	if err := config.CheckControlPlane(facts); err != nil {
		return err
	}
	if backup != nil {
		r.Emit(engine.Info, "verifying the archive "+untrusted.Quote(o.FromBackup))
	}
	resolved, how, err := o.resolve(ctx, p, backup, file, facts)
	r.Warn(how.Warnings...)
	if err != nil {
		return err
	}
	if o.PrintManifest {
		return printManifest(ctx, p, r.World(), resolved, sel.Only)
	}

	if err := r.Begin(ctx, resolved, how); err != nil {
		return err
	}
	n, err := r.KeepValues(ctx, resolved)
	if err != nil {
		return err
	}
	warnOfForeignClient(ctx, p, c, r.World(), o.Kubeconfig)
	if r.Finished() {
		return initAgain(ctx, r, n, o.withhold())
	}
	e := r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n), Keys: r.Keys(ctx, n),
		Admin: engine.As(existing.Admin(n.Local, o.Kubeconfig)), Withhold: o.withhold()})
	if r.IsWhole() {
		e.Admin = workflow.InitAdmin(r.World(), n.Local)
		r.Emit(engine.Info, "using Kubernetes version "+n.Cluster.Version)
	}
	if err := r.Execute(ctx, e); err != nil {
		return err
	}
	r.RepeatWarnings()
	return nil
}

// initAgain checks the control plane and shows the closing text of an init that has finished
// before. It changes nothing.
func initAgain(ctx context.Context, r *run.Run, n *node.Node, withhold engine.Withhold) error {
	e := r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n),
		Admin: engine.As(existing.Admin(n.Local, "")), Withhold: withhold})
	sel := engine.Selection{}
	if !r.Runs(phaseindex.ShowJoinCommand) { // which shows secrets
		sel.Skip = []string{string(phaseindex.ShowJoinCommand)}
	}
	if err := r.ExecutePhases(ctx, e, workflow.FinishedInit(r.FinishedRun()), sel); err != nil {
		return err
	}
	r.RepeatWarnings()
	return nil
}
