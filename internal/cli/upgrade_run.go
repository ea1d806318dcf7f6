package cli

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/renewal"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/upgrade"
	"kubeadm/internal/workflow"
)

func (p *program) upgradeApplyCommand() *cobra.Command {
	t := tree{name: "upgrade apply", argument: "[version]", phases: workflow.UpgradeApply,
		args: checkOptionalVersion, takesArgument: func(engine.Phase) bool { return true }}
	t.newRun = func(sel engine.Selection) (flagTargets, runFunc) {
		o := newUpgradeOptions(flag.UpgradeApply)
		return o.values(), func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Version = args[0]
			}
			return p.runUpgradeVia(c, o, sel)
		}
	}
	c := t.command(&cobra.Command{
		Use:   "apply [version]",
		Short: "Upgrade the cluster and its first control plane node to a version",
		Long: `Upgrade the cluster and this control plane node to a Kubernetes version. Upgrade the other nodes with
"kubeadm upgrade node" afterwards, and then the kubelet of each node.

The components are replaced one after the other. If one of them is not healthy with its new manifest, all previous
manifests are restored. An interrupted command is resumed by running it again.`,
		Example: `  # print what would be changed
  kubeadm upgrade apply v1.37.1 --dry-run

  # without confirmation
  kubeadm upgrade apply v1.37.1 --yes

  # from v1.35 over v1.36, with a single control plane node
  kubeadm upgrade apply v1.37.1 --via v1.36.3`,
	}, flag.AllowExperimentalUpgrades, flag.AllowRCUpgrades, flag.CertificateRenewal, flag.Config,
		flag.DryRun, flag.EtcdUpgrade, flag.FailOnManualChanges, flag.Force,
		flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Patches, flag.PrintConfig,
		flag.SkipPhases, flag.Via, flag.Yes)
	c.ValidArgsFunction = someOf(p.completeVersions())
	return p.withRunOutput(c)
}

func (p *program) upgradeNodeCommand() *cobra.Command {
	t := tree{name: "upgrade node", phases: workflow.UpgradeNode, args: refuseArguments}
	t.newRun = func(sel engine.Selection) (flagTargets, runFunc) {
		o := newUpgradeOptions(flag.UpgradeNode)
		return o.values(), func(c *cobra.Command, _ []string) error { return p.runUpgrade(c, o, sel) }
	}
	return p.withRunOutput(t.command(&cobra.Command{
		Use:   "node",
		Short: "Upgrade a further control plane node or a worker",
		Long: `Upgrade a further control plane node or a worker to the version of the cluster, after "kubeadm upgrade apply" on
the first control plane node. On a worker only the configuration of the kubelet is
upgraded, and the default of --kubeconfig is /etc/kubernetes/kubelet.conf.`,
		Example: `  # print what would be changed
  kubeadm upgrade node --dry-run

  kubeadm upgrade node`,
	}, flag.CertificateRenewal, flag.Config, flag.DryRun, flag.EtcdUpgrade,
		flag.FailOnManualChanges, flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Patches,
		flag.SkipPhases))
}

// upgradeOptions are the flags of "upgrade apply" or "upgrade node" and its phases.
type upgradeOptions struct {
	config.UpgradeFlags
	command    flag.Command
	file       string
	kubeconfig string
	via        []string // versions on the way to the one to upgrade to
}

func newUpgradeOptions(command flag.Command) *upgradeOptions {
	return &upgradeOptions{UpgradeFlags: config.NewUpgradeFlags(), command: command,
		kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
}

func (o *upgradeOptions) values() flagTargets {
	return flagTargets{
		flag.AllowExperimentalUpgrades: &o.AllowExperimental,
		flag.AllowRCUpgrades:           &o.AllowRC,
		flag.CertificateRenewal:        &o.CertificateRenewal,
		flag.Config:                    &o.file,
		flag.DryRun:                    &o.DryRun,
		flag.EtcdUpgrade:               &o.EtcdUpgrade,
		flag.FailOnManualChanges:       &o.FailOnEdits,
		flag.Force:                     &o.Force,
		flag.IgnorePreflightErrors:     &o.IgnorePreflightErrors,
		flag.Kubeconfig:                &o.kubeconfig,
		flag.Patches:                   &o.Patches,
		flag.PrintConfig:               &o.PrintConfig,
		flag.SkipPhases:                &o.SkipPhases,
		flag.Via:                       &o.via,
		flag.Yes:                       &o.Yes,
	}
}

// runUpgradeVia upgrades to the versions on the way first, but for those that this node has reached
// already, as after an interrupt.
func (p *program) runUpgradeVia(c *cobra.Command, o *upgradeOptions, sel engine.Selection) error {
	if len(o.via) > 0 && o.DryRun != nil && *o.DryRun {
		return problem.New("", errors.New("--dry-run shows one upgrade, but --via asks for several"),
			"leave out --via, and give its first version as the argument: "+o.via[0])
	}
	present, err := upgrade.PresentVersion(c.Context(), p.World(), node.DefaultPaths())
	if err != nil {
		return err
	}
	for _, text := range o.via {
		target, err := release.ParseTarget(text)
		if err != nil {
			return fmt.Errorf("--via: %w", err)
		}
		if present != nil && !present.LessThan(target.Version()) {
			continue
		}
		step := *o
		step.Version = text
		if err := p.runUpgrade(c, &step, sel); err != nil {
			return err
		}
	}
	return p.runUpgrade(c, o, sel)
}

// runUpgrade is "kubeadm upgrade apply" or "kubeadm upgrade node", or one of their phases.
func (p *program) runUpgrade(c *cobra.Command, o *upgradeOptions, sel engine.Selection) (err error) {
	ctx := c.Context()
	phases := workflow.UpgradeNode
	if o.command == flag.UpgradeApply {
		phases = workflow.UpgradeApply
	}
	r, err := run.Open(ctx, p.runHost(), run.Command{Name: string(o.command), Phases: phases,
		Selection: sel, Repeatable: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	intent, how, err := p.readUpgrade(c, o, sel)
	r.Warn(how.Warnings...)
	if err != nil {
		return err
	}
	access := upgradeAccess{intent: intent, kubeconfig: o.kubeconfig, mayRecover: !how.DryRun,
		isNamed: slices.Contains(o.Given, string(flag.Kubeconfig))}
	if how.DryRun {
		access.dryRun = &how
	}
	u, err := p.prepareUpgrade(c, r, access)
	if err != nil {
		return err
	}
	n := u.node
	if !u.isOffline {
		if err := r.Begin(ctx, n, how); err != nil {
			return err
		}
	}
	env := u.env(p)
	if intent.Confirm {
		env.Confirm = func(ctx context.Context) error {
			return p.confirm(ctx, r, fmt.Sprintf(
				"the control plane of this node is about to be upgraded to %s", n.Cluster.Version),
				flag.Yes)
		}
	}
	if err := r.Execute(ctx, r.NewEnv(env)); err != nil {
		return addUpgradeSteps(err, u.releases)
	}
	switch {
	case r.IsDryRun():
		r.Emit(engine.Info, "the dry run is complete: nothing was changed")
	case r.IsWhole():
		r.Emit(engine.Printed, upgradedText(o.command, n))
	default:
		return nil
	}
	r.RepeatWarnings()
	return nil
}

// preparedUpgrade is what an upgrade needs to know before it begins.
type preparedUpgrade struct {
	intent   node.Upgrade
	node     *node.Node // as it is to be
	admin    state.Identity
	releases upgrade.Releases
	// the run has begun, as the dry run of an upgrade of a simulated cluster
	isOffline bool
}

// upgradeAccess is what an upgrade wants, and how it may find the cluster.
type upgradeAccess struct {
	intent     node.Upgrade
	kubeconfig string // empty for the default one
	mayRecover bool   // what a killed run has left unfinished is finished first
	isNamed    bool   // the user has named the kubeconfig
	// of a dry run, which simulates the cluster if the kubeconfig does not exist; nil if it is none
	dryRun *config.RunOptions
}

// prepareUpgrade reads what this machine is, and what its cluster stores for the upgraded node.
func (p *program) prepareUpgrade(c *cobra.Command, r *run.Run,
	a upgradeAccess) (u preparedUpgrade, err error) {
	ctx, intent := c.Context(), a.intent
	e := r.NewEnv(engine.Env{Local: intent.Local}).Named("upgrade")
	if err := checkBeforeUpgrade(ctx, e, preflight.Root()); err != nil {
		return u, err
	}
	if a.dryRun != nil {
		if u.isOffline, err = beginOffline(ctx, r, &a); err != nil {
			return u, err
		}
		intent = a.intent
		e = r.NewEnv(engine.Env{Local: intent.Local}).Named("upgrade")
	}
	if intent.Local, err = upgrade.ReadMachine(ctx, r.World(), intent.Local); err != nil {
		return u, err
	}
	u.intent = intent
	u.releases = upgrade.Releases{Tool: e.Tool, Fetch: run.FetchVersion(ctx, r.World())}
	if u.admin, err = p.upgradeUser(ctx, r, u, a.kubeconfig); err != nil {
		return u, err
	}
	p.warnOfForeignClient(ctx, c, r.World(), u.admin.Kubeconfig)
	if a.mayRecover && intent.Role == node.ControlPlane {
		if err := p.recoverControlPlane(ctx, r, intent.Local, "upgrade"); err != nil {
			return u, err
		}
	}
	u.node, err = p.readUpgradedNode(withRetries(ctx, e, intent.Timeouts.KubernetesAPI), e, u)
	return u, err
}

// recoverControlPlane finishes what a killed run has left on this machine: key pairs of which only a
// part is written, and replacements of static Pods. Commands that replace or restart static Pods
// call it before they ask the API server, which may be down until then.
func (p *program) recoverControlPlane(ctx context.Context, r *run.Run, local node.Local,
	name string) error {
	n := &node.Node{Local: local}
	e := r.NewEnv(engine.Env{Local: local, Node: engine.Resolved(n),
		Keys: p.keysToUpgrade(n, node.Upgrade{})}).Named(name)
	if err := renewal.Repair(ctx, e); err != nil {
		return err
	}
	return staticpod.Replacement{Node: n}.Recover(ctx, e)
}

// env is what the phases of the upgrade need.
func (u preparedUpgrade) env(p *program) engine.Env {
	return engine.Env{Local: u.node.Local, Node: engine.Resolved(u.node), Upgrade: u.intent,
		Admin: func(context.Context) (state.Identity, error) { return u.admin, nil },
		Keys:  p.keysToUpgrade(u.node, u.intent)}
}

// readUpgrade resolves the settings from the file and the flags.
func (p *program) readUpgrade(c *cobra.Command, o *upgradeOptions,
	sel engine.Selection) (node.Upgrade, config.RunOptions, error) {
	file, err := p.readConfig(c.Context(), p.World(), o.file)
	if err != nil {
		return node.Upgrade{}, config.RunOptions{}, err
	}
	o.Given = givenFlags(c)
	if o.command == flag.UpgradeNode && !slices.Contains(o.Given, string(flag.Kubeconfig)) {
		o.kubeconfig = "" // a worker has another default
	}
	if file.Given() && sel.Only == "" {
		if err := o.RefuseMixed(o.Given, o.command); err != nil {
			return node.Upgrade{}, config.RunOptions{}, err
		}
	}
	if o.command == flag.UpgradeNode {
		return config.UpgradeNode(file, o.UpgradeFlags)
	}
	return config.UpgradeApply(file, o.UpgradeFlags)
}

// beginOffline begins a dry run on a machine without the kubeconfig, and reports whether it has. The
// intent then has the name of the machine.
func beginOffline(ctx context.Context, r *run.Run, a *upgradeAccess) (begun bool, err error) {
	paths := a.intent.Paths
	file := a.kubeconfig
	if file == "" { // of "upgrade node"
		isControlPlane, err := state.Exists(ctx, r.World(), paths.Manifest(release.APIServer))
		if err != nil {
			return false, err
		}
		file = paths.KubeletKubeconfig()
		if isControlPlane {
			file = paths.Kubeconfig("admin.conf")
		}
	}
	if exists, err := state.Exists(ctx, r.World(), file); err != nil || exists {
		return false, err
	}
	worker, err := isWorker(ctx, r.World(), paths)
	if err != nil || worker && a.intent.Version != "" {
		return false, err // refused, as without --dry-run
	}
	if a.isNamed {
		return false, problem.New("", fmt.Errorf("kubeconfig %s does not exist", file),
			"set --kubeconfig to that of an administrator")
	}
	a.intent.Local, err = r.BeginOfflineUpgrade(ctx, a.intent, *a.dryRun, file)
	return err == nil, err
}

// isWorker reports whether this machine is a node without a control plane.
func isWorker(ctx context.Context, r state.Reader, paths node.Paths) (bool, error) {
	isNode, err := state.Exists(ctx, r, paths.KubeletKubeconfig())
	if err != nil || !isNode {
		return false, err
	}
	isControlPlane, err := state.Exists(ctx, r, paths.Manifest(release.APIServer))
	return !isControlPlane, err
}

// upgradeUser is the user that phases are towards the API server: on a control plane node that of
// admin.conf, at the API server of this node; on a worker the kubelet.
func (p *program) upgradeUser(ctx context.Context, r *run.Run, u preparedUpgrade,
	kubeconfig string) (state.Identity, error) {
	local := u.intent.Local
	if local.Role != node.ControlPlane && u.intent.Version != "" {
		return state.Identity{}, problem.New("",
			fmt.Errorf("this machine is not a control plane node: %s does not exist",
				local.Paths.Manifest(release.APIServer)),
			"run the command on a control plane node; on a worker: kubeadm upgrade node")
	}
	if kubeconfig == "" && local.Role != node.ControlPlane {
		kubeconfig = local.Paths.KubeletKubeconfig()
	}
	as, err := workflow.Admin(local, kubeconfig)(ctx)
	if err != nil || u.isOffline {
		return as, err
	}
	if exists, err := state.Exists(ctx, r.World(), as.Kubeconfig); err != nil || exists {
		return as, err
	}
	return as, problem.New("", fmt.Errorf("kubeconfig %s does not exist", as.Kubeconfig),
		"set --kubeconfig to that of an administrator")
}

// readUpgradedNode returns the desired state of this node after the upgrade.
func (p *program) readUpgradedNode(ctx context.Context, e *engine.Env,
	u preparedUpgrade) (*node.Node, error) {
	intent := u.intent
	var target release.Target
	if intent.Version != "" {
		var notes []string
		var err error
		target, notes, err = u.releases.Target(intent.Version)
		for _, text := range notes {
			e.Warn("%s", text)
		}
		if err != nil {
			return nil, err
		}
	}
	e.Say("reading the configuration of the cluster")
	n, warnings, err := upgrade.ReadNode(ctx, e.World, u.admin, intent.Local, target)
	for _, text := range warnings {
		e.Warn("%s", text)
	}
	if err == nil && intent.PrintConfig {
		e.Say("ClusterConfiguration of the upgraded cluster:")
		e.Print("\t" + strings.ReplaceAll(strings.TrimSpace(n.Cluster.Document), "\n", "\n\t") +
			"\n")
	}
	return n, err
}

// keysToUpgrade returns private keys of the cluster's algorithm, for the certificates that an
// upgrade renews. They are generated ahead of need.
func (p *program) keysToUpgrade(n *node.Node, intent node.Upgrade) func(pki.Need) (crypto.Signer, error) {
	ahead := 0
	if intent.CertificateRenewal && n.Role == node.ControlPlane {
		ahead = len(pki.Renewables())
	}
	return pki.NewKeyPool(p.Random("keys"), cmp.Or(n.Cluster.Algorithm, pki.DefaultAlgorithm),
		ahead, ahead).Key
}

// addUpgradeSteps adds the commands that lead to the version, if it cannot be reached in one step.
func addUpgradeSteps(err error, releases upgrade.Releases) error {
	var skew *upgrade.SkewError
	if !errors.As(err, &skew) || !skew.Cluster.IsJump(skew.Target.Version()) {
		return err
	}
	to := upgrade.Candidate{Version: version.MustParseSemantic(skew.Target.Version().String())}
	hints := []string{"these steps lead to " + skew.Target.String() + ":"}
	for i, step := range skew.Cluster.Steps(to, releases.Tool, releases.NewestPatch) {
		text := fmt.Sprintf("%d. %s", i+1, step.Text)
		if step.Command != "" {
			text += ": " + step.Command
		}
		hints = append(hints, text)
	}
	if current := skew.Cluster.Version; len(skew.Cluster.ControlPlaneNodes) == 1 &&
		current.LessThan(skew.Target.Version()) {
		var via []string
		for minor := current.Minor() + 1; minor < skew.Target.Minor(); minor++ {
			via = append(via, releases.NewestPatch(minor))
		}
		hints = append(hints, fmt.Sprintf("or all in one run, as there is a single control plane node: "+
			"kubeadm upgrade apply %s --via %s", skew.Target, strings.Join(via, ",")))
	}
	if strings.Contains(strings.Join(hints, "\n"), ".X") {
		hints = append(hints, patchPlaceholder)
	}
	return problem.New("", err, hints...)
}

// upgradedText is the closing text.
func upgradedText(command flag.Command, n *node.Node) string {
	switch {
	case command == flag.UpgradeApply:
		return fmt.Sprintf(appliedText, n.Cluster.Version)
	case n.Role == node.ControlPlane:
		return fmt.Sprintf(upgradedControlPlaneText, n.Cluster.Version)
	}
	return upgradedWorkerText
}

const appliedText = `
SUCCESS! The control plane of this node was upgraded to %[1]s.

Next:
  1. On each other control plane node, one after the other: kubeadm upgrade node
  2. On each worker: kubeadm upgrade node
  3. On each node, one after the other: drain it, install kubelet %[1]s, restart the kubelet and uncordon the node.
`

const upgradedControlPlaneText = `
The control plane of this node was upgraded to %[1]s.

Next: drain this node, install kubelet %[1]s, restart the kubelet and uncordon the node.
`

const upgradedWorkerText = `
The configuration of this node's kubelet was upgraded.

Next: drain this node, upgrade its kubelet, restart the kubelet and uncordon the node.
`
