package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/flag"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/release"
	"kubeadm/internal/report"
	"kubeadm/internal/state"
	"kubeadm/internal/upgrade"
	"kubeadm/internal/world"
)

// upgradePlanOptions are the flags of "upgrade plan".
type upgradePlanOptions struct {
	config.UpgradePlanFlags
	output
	file       string
	kubeconfig string
}

func (o *upgradePlanOptions) values() values {
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

func (p *program) upgradePlanCommand() *cobra.Command {
	o := &upgradePlanOptions{
		UpgradePlanFlags: config.NewUpgradePlanFlags(),
		output:           newOutput(),
		kubeconfig:       node.DefaultPaths().Kubeconfig("admin.conf"),
	}
	c := &cobra.Command{
		Use:   "plan [version]",
		Short: "Show the versions that a cluster can be upgraded to",
		Long: `Show the versions that the cluster can be upgraded to, and what each upgrade changes.
Check whether the cluster is in a state to be upgraded. Nothing is changed.

The newest releases are read from https://dl.k8s.io. If a version or a label such as stable-1.37 is given,
only that one is considered. A version needs no internet.`,
		Example: `  kubeadm upgrade plan

  # one version, without internet
  kubeadm upgrade plan v1.37.1

  # for programs
  kubeadm upgrade plan --output json`,
		Args:              optionalVersion,
		ValidArgsFunction: someOf(p.versions()),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Version = args[0]
			}
			return p.planUpgrade(c, o)
		},
	}
	o.values().bind(c.Flags())
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

func (p *program) planUpgrade(c *cobra.Command, o *upgradePlanOptions) error {
	ctx, real := c.Context(), p.World()
	encode, err := o.encoder(ctx, real)
	if err != nil {
		return err
	}
	file, err := p.readConfig(ctx, real, o.file)
	if err == nil && file.Given() {
		err = o.RefuseMixed(given(c))
	}
	if err != nil {
		return err
	}
	wanted, how, err := config.ReadUpgradePlan(file, o.UpgradePlanFlags)
	warn(p.text(false), how.Warnings)
	if err != nil {
		return err
	}
	tool, err := p.tool()
	if err != nil {
		return err
	}
	say := &upgradeProgress{text: p.text(false)}
	if encode != nil {
		say.text.Out = io.Discard
	}
	ctx = world.Listen(ctx, func(text string) { say.warn("%s", text) })
	ctx = world.Retry(ctx, wanted.Timeouts.KubernetesAPI)
	for _, text := range preflight.UnknownNames(wanted.Ignore) {
		say.warn("%s", text)
	}
	if err := say.check(ctx, real, preflight.Root(), wanted.Ignore); err != nil {
		return err
	}
	admin, err := p.upgradeIdentity(ctx, real, o.kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := say.readCluster(ctx, real, admin)
	if err != nil {
		return err
	}
	say.line("checking the health of the cluster")
	own, err := release.ParseTarget(tool.String())
	if err != nil {
		return err
	}
	checks := cluster.Checks(admin, node.DefaultPaths(), cluster.CoreDNSTag(own))
	if err := say.check(ctx, real, checks, wanted.Ignore); err != nil {
		return err
	}
	if wanted.PrintConfig {
		say.line("ClusterConfiguration that the cluster stores:")
		document := "\t" + strings.ReplaceAll(strings.TrimSpace(cluster.Config.Document), "\n",
			"\n\t")
		say.emit(flow.Printed, document+"\n")
	}
	releases := upgrade.Releases{Tool: tool, Fetch: fetch(ctx, real)}
	plan, err := say.plan(cluster, releases, wanted)
	if err != nil || len(plan.AvailableUpgrades) == 0 {
		return err
	}
	if encode != nil {
		for _, a := range plan.AvailableUpgrades {
			if cluster.IsJump(a.candidate.Version) {
				say.warn("%s takes several steps: --output text lists them", a.candidate)
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

// upgradeIdentity is the user of the kubeconfig, which must exist.
func (p *program) upgradeIdentity(
	ctx context.Context, r state.Reader, kubeconfig string,
) (state.Identity, error) {
	if _, err := r.Stat(ctx, kubeconfig); errors.Is(err, fs.ErrNotExist) {
		return state.Identity{},
			problem.New("", fmt.Errorf("kubeconfig %s does not exist", kubeconfig),
				"run the command on a control-plane node, or name an administrator's kubeconfig with "+
					"--kubeconfig")
	}
	return p.identity(ctx, r, kubeconfig), nil
}

// upgradeProgress tells the user what an upgrade command does.
type upgradeProgress struct{ text *report.Text }

func (s *upgradeProgress) emit(kind flow.Kind, text string) {
	s.text.Emit(flow.Event{Phase: "upgrade", Kind: kind, Text: text})
}

func (s *upgradeProgress) line(format string, args ...any) {
	s.emit(flow.Said, fmt.Sprintf(format, args...))
}

func (s *upgradeProgress) warn(format string, args ...any) {
	s.emit(flow.Warned, fmt.Sprintf(format, args...))
}

// check runs preflight checks, shows their warnings and returns their errors.
func (s *upgradeProgress) check(
	ctx context.Context, r state.Reader, checks []preflight.Check, ignore node.Ignore,
) error {
	result := preflight.Run(ctx, r, checks, ignore)
	for _, f := range result.Warnings() {
		s.text.Emit(flow.Event{Phase: "preflight", Kind: flow.Warned, Check: f.Check,
			Text: f.Message()})
	}
	return result.Err()
}

func (s *upgradeProgress) readCluster(
	ctx context.Context, r state.Reader, admin state.Identity,
) (*upgrade.Cluster, error) {
	s.line("reading the versions and the configuration of the cluster")
	cluster, warnings, err := upgrade.ReadCluster(ctx, r, admin)
	for _, text := range warnings {
		s.warn("%s", text)
	}
	return cluster, err
}

// plan finds the versions to upgrade to and what each changes.
func (s *upgradeProgress) plan(
	cluster *upgrade.Cluster, releases upgrade.Releases, wanted config.UpgradePlan,
) (plan upgradePlan, err error) {
	s.line("cluster version: v%s", cluster.Version)
	s.line("kubeadm version: %s", releases.Tool)
	candidates, notes, err := releases.FindCandidates(cluster.Version, upgrade.Choice{
		Version:           wanted.Version,
		AllowExperimental: wanted.AllowExperimental,
		AllowRC:           wanted.AllowRC,
	})
	for _, text := range notes {
		s.warn("%s", text)
	}
	if err != nil {
		return plan, err
	}
	plan = upgradePlan{TypeMeta: outputMeta("UpgradePlan"),
		ConfigVersions: cluster.ComponentConfigs}
	for _, candidate := range candidates {
		components, err := cluster.Components(candidate, releases.Tool, wanted.EtcdUpgrade)
		if err != nil {
			return plan, err
		}
		plan.AvailableUpgrades = append(plan.AvailableUpgrades,
			availableUpgrade{candidate.Description, components, candidate})
	}
	if len(candidates) == 0 && wanted.Version != "" {
		s.line("there is nothing to upgrade: %s is not newer than the cluster", wanted.Version)
	} else if len(candidates) == 0 {
		s.line("there is nothing to upgrade: no newer version is known")
	}
	return plan, nil
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
		fmt.Fprintln(out, "To be upgraded by hand on each node, after the control plane:")
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
		fmt.Fprintf(out, "\nA control plane is upgraded by one minor version at a time. "+
			"From v%s to %s it takes these steps:\n\n", cluster.Version, a.candidate)
		writeSteps(out, cluster.Steps(a.candidate, releases.Tool, releases.NewestPatch))
	} else {
		command := strings.TrimSpace("kubeadm upgrade apply " + a.candidate.String() + " " +
			a.candidate.Flag())
		fmt.Fprintf(out, "\nTo upgrade, run on a control-plane node:\n\n\t%s\n\n", command)
		if newKubeadm != "" {
			fmt.Fprintf(out, "Before that, install kubeadm %s: this one is older.\n\n", newKubeadm)
		}
	}
	_, err := fmt.Fprint(out, separator)
	return err
}

func writeComponents(out io.Writer, components []upgrade.Component) error {
	w := tabwriter.NewWriter(out, 10, 4, 3, ' ', 0)
	fmt.Fprintln(w, "COMPONENT\tNODE\tCURRENT\tTARGET")
	for _, c := range components {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, c.NodeName, c.CurrentVersion, c.NewVersion)
	}
	return w.Flush()
}

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
		fmt.Fprintln(out, "\nPut the newest patch release that is available to you in place of X.")
	}
	fmt.Fprintln(out)
}

// writeConfigVersions shows which component configurations must be migrated by hand.
func writeConfigVersions(out io.Writer, configs []upgrade.ComponentConfig) error {
	fmt.Fprint(out, "Versions of the component configurations that the cluster stores. One "+
		"that is marked \"yes\"\nmust be converted by hand to the preferred version before an upgrade:\n\n")
	w := tabwriter.NewWriter(out, 10, 4, 3, ' ', 0)
	fmt.Fprintln(w, "API GROUP\tCURRENT VERSION\tPREFERRED VERSION\tMANUAL UPGRADE REQUIRED")
	for _, c := range configs {
		current := c.CurrentVersion
		if current == "" {
			current = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Group, current, c.PreferredVersion,
			yesOrNo(c.ManualUpgradeRequired))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, separator)
	return err
}
