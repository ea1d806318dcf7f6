package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/version"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/upgrade"
	"kubeadm/internal/workflow"
)

func newUpgradeApplyCommand(p *program) *cobra.Command {
	t := tree{name: "upgrade apply", argument: "[version]", phases: workflow.UpgradeApply,
		args: checkOptionalVersion, takesArgument: func(engine.Phase) bool { return true }}
	t.newRun = func(sel engine.Selection) (flagTargets, runFunc) {
		o := newUpgradeOptions(flag.UpgradeApply)
		return targetsOf(o), func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Version = args[0]
			}
			return runUpgradeVia(p, c, o, sel)
		}
	}
	c := t.command(&cobra.Command{
		Use:   "apply [version]",
		Short: "Upgrade the cluster-wide components and this control plane node to the given version",
		Long: `Upgrade the cluster and this control plane node to the given Kubernetes version. Afterwards, run
"kubeadm upgrade node" on each of the other nodes, and then upgrade the kubelet on every node.

kubeadm replaces the components one at a time. If one of them does not become healthy with its new manifest, kubeadm
restores the previous manifests; an upgraded etcd is rolled back only if it has clearly failed to start. To resume an
interrupted command, re-run it.`,
		Example: `  # print what would change
  kubeadm upgrade apply v1.37.1 --dry-run

  # skip the confirmation prompt
  kubeadm upgrade apply v1.37.1 --yes

  # upgrade from v1.35 by way of v1.36 (single control plane node only)
  kubeadm upgrade apply v1.37.1 --via v1.36.3`,
	}, flag.KubeconfigDir, flag.NodeName)
	c.ValidArgsFunction = someOf(completeVersions(p))
	return withRunOutput(p, c)
}

func newUpgradeNodeCommand(p *program) *cobra.Command {
	t := tree{name: "upgrade node", phases: workflow.UpgradeNode, args: refuseArguments}
	t.newRun = func(sel engine.Selection) (flagTargets, runFunc) {
		o := newUpgradeOptions(flag.UpgradeNode)
		return targetsOf(o), func(c *cobra.Command, _ []string) error { return runUpgrade(p, c, o, sel) }
	}
	return withRunOutput(p, t.command(&cobra.Command{
		Use:   "node",
		Short: "Upgrade this node after \"upgrade apply\": the components of a control plane node, or the kubelet configuration of a worker",
		Long: `Upgrade this node (an additional control plane node or a worker) to the cluster's version. Run this after
"kubeadm upgrade apply" has finished on the first control plane node. On a worker, kubeadm upgrades only the kubelet's
configuration, and --kubeconfig defaults to /etc/kubernetes/kubelet.conf.`,
		Example: `  # print what would change
  kubeadm upgrade node --dry-run

  kubeadm upgrade node`,
	}, flag.AllowExperimentalUpgrades, flag.AllowRCUpgrades, flag.Force, flag.KubeconfigDir, flag.NodeName,
		flag.PrintConfig, flag.Via, flag.Yes))
}

// upgradeOptions are the flags of "upgrade apply" or "upgrade node" and its phases.
type upgradeOptions struct {
	config.UpgradeFlags
	command    flag.Command
	File       string   `flag:"config"`
	Kubeconfig string   `flag:"kubeconfig"`
	Via        []string `flag:"via"` // versions on the way to the one to upgrade to
}

func newUpgradeOptions(command flag.Command) *upgradeOptions {
	return &upgradeOptions{UpgradeFlags: config.NewUpgradeFlags(), command: command,
		Kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
}

// runUpgradeVia upgrades to the versions on the way first, but for those that this node has reached
// already, as after an interrupt.
func runUpgradeVia(p *program, c *cobra.Command, o *upgradeOptions, sel engine.Selection) error {
	if len(o.Via) > 0 && o.DryRun != nil && *o.DryRun {
		return problem.New(errors.New("--dry-run shows a single upgrade, but --via asks for several"),
			"leave out --via, and pass its first version as the argument: "+o.Via[0])
	}
	present, err := upgrade.PresentVersion(c.Context(), p.World(), node.DefaultPaths())
	if err != nil {
		return err
	}
	for _, text := range o.Via {
		target, err := release.ParseTarget(text)
		if err != nil {
			return fmt.Errorf("--via: %w", err)
		}
		if present != nil && !present.LessThan(target.Version()) {
			continue
		}
		step := *o
		step.Version = text
		if err := runUpgrade(p, c, &step, sel); err != nil {
			return err
		}
	}
	return runUpgrade(p, c, o, sel)
}

// runUpgrade is "kubeadm upgrade apply" or "kubeadm upgrade node", or one of their phases.
func runUpgrade(p *program, c *cobra.Command, o *upgradeOptions, sel engine.Selection) (err error) {
	ctx := c.Context()
	phases := workflow.UpgradeNode
	if o.command == flag.UpgradeApply {
		phases = workflow.UpgradeApply
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: string(o.command), Phases: phases,
		Selection: sel, Repeatable: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	intent, how, err := readUpgrade(p, c, o, sel)
	r.Warn(how.Warnings...)
	if err != nil {
		return err
	}
	access := existing.Options{Kubeconfig: named(c, o.Kubeconfig), Recover: !how.DryRun}
	if o.command == flag.UpgradeApply {
		access.OnlyControlPlane = "on a worker: kubeadm upgrade node"
	}
	e := envOfNode(ctx, p, r, intent.Local, "upgrade")
	if err := runChecks(ctx, e, preflight.Root()); err != nil {
		return err
	}
	if how.DryRun {
		if access.Simulated, err = beginSimulation(ctx, r, &intent, how, access); err != nil {
			return err
		}
		e = envOfNode(ctx, p, r, intent.Local, "upgrade") // which may be simulated now
	}
	here, err := existing.Open(ctx, e, access)
	if err != nil {
		return err
	}
	intent.Local = here.Local
	releases := upgrade.Releases{Tool: e.Tool, Fetch: run.FetchVersion(ctx, r.World())}
	n, err := readUpgradedNode(ctx, e, here, intent, releases)
	if err != nil {
		return err
	}
	if !access.Simulated {
		if err := r.Begin(ctx, n, how); err != nil {
			return err
		}
	}
	wanted := upgrade.Intent{Upgrade: intent}
	if intent.Confirm {
		wanted.Ask = func(ctx context.Context) error {
			return confirm(ctx, p, r, fmt.Sprintf(
				"the control plane of this node is about to be upgraded to %s", n.Cluster.Version),
				flag.Yes)
		}
	}
	if err := r.Execute(ctx, r.NewEnv(upgradeEnv(ctx, p, n, here.As, wanted))); err != nil {
		return addUpgradeSteps(err, releases)
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

// upgradeEnv is what the phases of an upgrade need.
func upgradeEnv(ctx context.Context, p *program, n *node.Node, as state.Identity, intent upgrade.Intent) engine.Env {
	ahead := 0
	if intent.CertificateRenewal && n.Role == node.ControlPlane {
		ahead = len(pki.Renewables())
	}
	return engine.Env{Local: n.Local, Node: engine.Resolved(n), Intent: intent,
		Admin: engine.As(as), Keys: newKeys(ctx, p.NewKey, n.Cluster.Algorithm, ahead)}
}

// readUpgrade resolves the settings from the file and the flags.
func readUpgrade(p *program, c *cobra.Command, o *upgradeOptions,
	sel engine.Selection) (node.Upgrade, config.RunOptions, error) {
	file, err := readConfig(c.Context(), p, p.World(), o.File)
	if err != nil {
		return node.Upgrade{}, config.RunOptions{}, err
	}
	o.Given = givenFlags(c)
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

// beginSimulation begins a dry run on a machine without the kubeconfig, and reports whether it has. The
// intent then has the name of the machine.
func beginSimulation(ctx context.Context, r *run.Run, intent *node.Upgrade, how config.RunOptions,
	access existing.Options) (begun bool, err error) {
	isControlPlane, err := state.Exists(ctx, r.World(), intent.Paths.Manifest(release.APIServer))
	if err != nil {
		return false, err
	}
	file := access.Kubeconfig
	switch {
	case file != "":
	case isControlPlane || access.OnlyControlPlane != "":
		file = intent.Paths.Kubeconfig("admin.conf")
	default:
		file = intent.Paths.KubeletKubeconfig()
	}
	if exists, err := state.Exists(ctx, r.World(), file); err != nil || exists {
		return false, err
	}
	isNode, err := state.Exists(ctx, r.World(), intent.Paths.KubeletKubeconfig())
	switch {
	case err != nil:
		return false, err
	case isNode && !isControlPlane && access.OnlyControlPlane != "":
		return false, nil // refused, as without --dry-run
	case access.Kubeconfig != "":
		return false, existing.NewNoKubeconfig(file)
	}
	intent.Local, err = r.BeginOfflineUpgrade(ctx, *intent, how, file)
	return err == nil, err
}

// readUpgradedNode returns the desired state of this node after the upgrade.
func readUpgradedNode(ctx context.Context, e *engine.Env, here existing.Machine, intent node.Upgrade,
	releases upgrade.Releases) (*node.Node, error) {
	var target release.Target
	if intent.Version != "" {
		var notes []string
		var err error
		target, notes, err = releases.Target(intent.Version)
		for _, text := range notes {
			e.Warn("%s", text)
		}
		if err != nil {
			return nil, err
		}
	}
	n, err := here.Node(ctx, e, target)
	if err == nil && intent.PrintConfig {
		e.Say("ClusterConfiguration of the upgraded cluster:")
		e.Print("\t" + strings.ReplaceAll(strings.TrimSpace(n.Cluster.Document), "\n", "\n\t") +
			"\n")
	}
	return n, err
}

// addUpgradeSteps adds the commands that lead to the version, if it cannot be reached in one step.
func addUpgradeSteps(err error, releases upgrade.Releases) error {
	var skew *upgrade.SkewError
	if !errors.As(err, &skew) || !skew.Cluster.IsJump(skew.Target.Version()) {
		return err
	}
	to := upgrade.Candidate{Version: version.MustParseSemantic(skew.Target.Version().String())}
	hints := []string{"to reach " + skew.Target.String() + ", take these steps:"}
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
		hints = append(hints, fmt.Sprintf("or take all steps in one run, because there is a single control plane node: "+
			"kubeadm upgrade apply %s --via %s", skew.Target, strings.Join(via, ",")))
	}
	if strings.Contains(strings.Join(hints, "\n"), ".X") {
		hints = append(hints, patchPlaceholder)
	}
	return problem.New(err, hints...)
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
SUCCESS! The control plane on this node was upgraded to %[1]s.

Next:
  1. On each of the other control plane nodes, one at a time: kubeadm upgrade node
  2. On each worker: kubeadm upgrade node
  3. On every node, one at a time: drain it, install kubelet %[1]s, restart the kubelet and uncordon the node.
`

const upgradedControlPlaneText = `
The control plane on this node was upgraded to %[1]s.

Next: drain this node, install kubelet %[1]s, restart the kubelet and uncordon the node.
`

const upgradedWorkerText = `
The configuration of this node's kubelet was upgraded.

Next: drain this node, upgrade its kubelet, restart the kubelet and uncordon the node.
`
