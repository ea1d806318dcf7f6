package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/report"
	"kubeadm/internal/run"
	"kubeadm/internal/upgrade"
)

// upgradePlanOptions are the flags of "upgrade plan".
type upgradePlanOptions struct {
	config.UpgradePlanFlags
	output
	file       string
	kubeconfig string
}

func (o *upgradePlanOptions) values() flagTargets {
	all := o.output.values()
	all[flag.AllowExperimentalUpgrades] = &o.AllowExperimental
	all[flag.AllowRCUpgrades] = &o.AllowRC
	all[flag.Config] = &o.file
	all[flag.EtcdUpgrade] = &o.EtcdUpgrade
	all[flag.IgnorePreflightErrors] = &o.IgnorePreflightErrors
	all[flag.Kubeconfig] = &o.kubeconfig
	all[flag.PrintConfig] = &o.PrintConfig
	return all
}

func newUpgradePlanCommand(p *program) *cobra.Command {
	o := &upgradePlanOptions{
		UpgradePlanFlags: config.NewUpgradePlanFlags(),
		output:           newOutput(),
		kubeconfig:       node.DefaultPaths().Kubeconfig("admin.conf"),
	}
	c := &cobra.Command{
		Use:   "plan [version]",
		Short: "Show the versions that the cluster can be upgraded to",
		Long: `Check whether the cluster can be upgraded, and show the versions that it can be upgraded to and what each
upgrade changes. This command changes nothing.

By default, kubeadm looks up the latest releases at https://dl.k8s.io. If you pass a version or a label such as
stable-1.37, only that release is considered. An explicit version needs no internet access.`,
		Example: `  kubeadm upgrade plan

  # one version, without internet access
  kubeadm upgrade plan v1.37.1

  # machine-readable
  kubeadm upgrade plan --output json`,
		Args:              checkOptionalVersion,
		ValidArgsFunction: someOf(completeVersions(p)),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Version = args[0]
			}
			return planUpgrade(p, c, o)
		},
	}
	o.values().bindOf(flag.UpgradePlan, c.Flags())
	describeOutputFormats(c.Flags())
	return c
}

// upgradePlan is the result as an object.
type upgradePlan struct {
	metav1.TypeMeta   `json:",inline"`
	AvailableUpgrades []availableUpgrade        `json:"availableUpgrades"`
	ConfigVersions    []upgrade.ComponentConfig `json:"configVersions"`
}

// availableUpgrade is an upgrade to one version.
type availableUpgrade struct {
	Description string              `json:"description"`
	Components  []upgrade.Component `json:"components"`

	candidate upgrade.Candidate
}

func planUpgrade(p *program, c *cobra.Command, o *upgradePlanOptions) (err error) {
	ctx, real := c.Context(), p.World()
	encode, err := o.encoder(ctx, real)
	if err != nil {
		return err
	}
	file, err := readConfig(ctx, p, real, o.file)
	if err == nil && file.Given() {
		err = o.RefuseMixed(givenFlags(c))
	}
	if err != nil {
		return err
	}
	settings, how, err := config.ReadUpgradePlan(file, o.UpgradePlanFlags)
	warn(p, "config", how.Warnings...)
	if err != nil {
		return err
	}
	h := runHost(p)
	if encode != nil {
		h.Report.Text.Out = io.Discard
	}
	r, err := run.Open(ctx, h, run.Command{Name: "upgrade", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	local := node.Local{Paths: node.DefaultPaths(), Timeouts: settings.Timeouts,
		IgnoredChecks: settings.Ignore}
	e := r.NewEnv(engine.Env{Local: local}).Named("upgrade")
	warnOfForeignClient(ctx, p, c, real, o.kubeconfig)
	cluster, err := readHealthyCluster(ctx, p, e, o.kubeconfig)
	if err != nil {
		return err
	}
	if settings.PrintConfig {
		e.Say("ClusterConfiguration stored in the cluster:")
		e.Print("\t" + strings.ReplaceAll(strings.TrimSpace(cluster.Config.Document), "\n",
			"\n\t") + "\n")
	}
	releases := upgrade.Releases{Tool: e.Tool, Fetch: run.FetchVersion(ctx, real)}
	plan, err := newUpgradePlan(e, cluster, releases, settings)
	if err != nil || len(plan.AvailableUpgrades) == 0 {
		return err
	}
	if encode != nil {
		for _, a := range plan.AvailableUpgrades {
			if cluster.IsJump(a.candidate.Version) {
				e.Warn("%s takes several steps; --output text lists them", a.candidate)
			}
		}
		return encode(p.Out, []any{plan})
	}
	for _, a := range plan.AvailableUpgrades {
		if err := writeAvailableUpgrade(p.Out, a, cluster, releases); err != nil {
			return err
		}
	}
	return writeConfigVersions(p.Out, plan.ConfigVersions)
}

// readHealthyCluster reads the cluster as the user of the kubeconfig. Failed preflight checks are
// errors.
func readHealthyCluster(
	ctx context.Context, p *program, e *engine.Env, kubeconfig string,
) (*upgrade.Cluster, error) {
	for _, text := range preflight.UnknownNames(e.Local.IgnoredChecks) {
		e.Warn("%s", text)
	}
	if err := runChecks(ctx, e, preflight.Root()); err != nil {
		return nil, err
	}
	if _, err := e.World.Stat(ctx, kubeconfig); errors.Is(err, fs.ErrNotExist) {
		return nil, problem.New(fmt.Errorf("kubeconfig %s does not exist", kubeconfig),
			"run the command on a control plane node, or set --kubeconfig to an administrator's kubeconfig")
	}
	admin := readIdentity(ctx, p, e.World, kubeconfig)
	e.Say("reading the versions and the configuration of the cluster")
	cluster, warnings, err := upgrade.ReadCluster(ctx, e.Reader(), admin)
	for _, text := range warnings {
		e.Warn("%s", text)
	}
	if err != nil {
		return nil, err
	}
	e.Say("checking the health of the cluster")
	own, err := release.ParseTarget(e.Tool.String())
	if err != nil {
		return nil, err
	}
	checks := cluster.Checks(admin, e.Local.Paths, cluster.CoreDNSTag(own))
	return cluster, runChecks(ctx, e, checks)
}

// newUpgradePlan finds the versions to upgrade to and what each changes.
func newUpgradePlan(
	e *engine.Env, cluster *upgrade.Cluster, releases upgrade.Releases, settings config.UpgradePlan,
) (plan upgradePlan, err error) {
	e.Say("cluster version: v%s", cluster.Version)
	e.Say("kubeadm version: %s", releases.Tool)
	candidates, notes, err := releases.FindCandidates(cluster.Version, upgrade.Choice{
		Version:           settings.Version,
		AllowExperimental: settings.AllowExperimental,
		AllowRC:           settings.AllowRC,
	})
	for _, text := range notes {
		e.Warn("%s", text)
	}
	if err != nil {
		return plan, err
	}
	plan = upgradePlan{TypeMeta: outputMeta("UpgradePlan"),
		ConfigVersions: cluster.ComponentConfigs}
	for _, candidate := range candidates {
		components, err := cluster.Components(candidate, releases.Tool, settings.EtcdUpgrade)
		if err != nil {
			return plan, err
		}
		if err := warnOfProblems(e, cluster, candidate); err != nil {
			return plan, err
		}
		plan.AvailableUpgrades = append(plan.AvailableUpgrades,
			availableUpgrade{candidate.Description, components, candidate})
	}
	if len(candidates) == 0 && settings.Version != "" {
		e.Say("there is nothing to upgrade: %s is not newer than the cluster", settings.Version)
	} else if len(candidates) == 0 {
		e.Say("there is nothing to upgrade: no newer version is known")
	}
	return plan, nil
}

// warnOfProblems names the settings that must be corrected before an upgrade.
func warnOfProblems(e *engine.Env, cluster *upgrade.Cluster, to upgrade.Candidate) error {
	problems, err := cluster.FindProblems(to)
	for _, found := range problems {
		before := ""
		if found.Fatal {
			before = fmt.Sprintf("the upgrade to %s will be refused: ", to)
		}
		e.WarnCheck(found.Check, fmt.Sprintf("%s%s: %s; %s", before, found.Field, found.Text, found.Hint))
	}
	return err
}

// separator ends a section of the plan.
var separator = strings.Repeat("_", 69) + "\n\n"

func writeAvailableUpgrade(
	out io.Writer, a availableUpgrade, cluster *upgrade.Cluster, releases upgrade.Releases,
) error {
	var kubelets, others []upgrade.Component
	newKubeadm := ""
	for _, c := range a.Components {
		switch {
		case c.IsKubelet():
			kubelets = append(kubelets, c)
		case !c.IsUpgradedByHand():
			others = append(others, c)
		case c.CurrentVersion != c.NewVersion:
			newKubeadm = c.NewVersion
		}
	}
	fmt.Fprintf(out, "\nUpgrade to %s (%s)\n\n", a.candidate, a.Description)
	if len(kubelets) > 0 {
		fmt.Fprintln(out, "Upgrade these manually on each node, after the control plane:")
		if err := writeComponents(out, kubelets); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, "Upgraded by kubeadm:")
	if err := writeComponents(out, others); err != nil {
		return err
	}
	if cluster.IsJump(a.candidate.Version) {
		fmt.Fprintf(out, "\nA control plane is upgraded one minor version at a time. "+
			"The steps from v%s to %s:\n\n", cluster.Version, a.candidate)
		writeSteps(out, cluster.Steps(a.candidate, releases.Tool, releases.NewestPatch))
	} else {
		command := strings.TrimSpace("kubeadm upgrade apply " + a.candidate.String() + " " +
			a.candidate.Flag())
		fmt.Fprintf(out, "\nTo upgrade, run on a control plane node:\n\n\t%s\n\n", command)
		if newKubeadm != "" {
			fmt.Fprintf(out, "First install kubeadm %s: this one is older.\n\n", newKubeadm)
		}
	}
	_, err := fmt.Fprint(out, separator)
	return err
}

func writeComponents(out io.Writer, components []upgrade.Component) error {
	w := report.NewTable(out, 10, "COMPONENT", "NODE", "CURRENT", "TARGET")
	for _, c := range components {
		w.Row(c.Name, c.NodeName, c.CurrentVersion, c.NewVersion)
	}
	return w.Flush()
}

const patchPlaceholder = "Replace X with the newest patch release that you can get"

func writeSteps(out io.Writer, steps []upgrade.Step) {
	placeholder := false
	for i, step := range steps {
		fmt.Fprintf(out, "%2d. %s\n", i+1, step.Text)
		if step.Command != "" {
			fmt.Fprintf(out, "\n\t%s\n\n", step.Command)
		}
		placeholder = placeholder || strings.HasSuffix(step.Command, ".X")
	}
	if placeholder {
		fmt.Fprintf(out, "\n%s.\n", patchPlaceholder)
	}
	fmt.Fprintln(out)
}

// writeConfigVersions shows which component configurations must be migrated by hand.
func writeConfigVersions(out io.Writer, configs []upgrade.ComponentConfig) error {
	fmt.Fprint(out, "Versions of the component configurations stored in the cluster. Convert those marked \"yes\"\n"+
		"to the preferred version manually before you upgrade:\n\n")
	w := report.NewTable(out, 10, "API GROUP", "CURRENT VERSION", "PREFERRED VERSION",
		"MANUAL UPGRADE REQUIRED")
	for _, c := range configs {
		current := c.CurrentVersion
		if current == "" {
			current = "-"
		}
		w.Row(c.Group, current, c.PreferredVersion, yesOrNo(c.ManualUpgradeRequired))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, separator)
	return err
}
