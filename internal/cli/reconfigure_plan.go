package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/kubeletfile"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/workflow"
)

// reconfigurePlanOptions are the flags of "reconfigure plan".
type reconfigurePlanOptions struct {
	reconfigureOptions
	output           output
	Diff             bool `flag:"diff"`
	DetailedExitCode bool `flag:"detailed-exitcode"`
}

func newReconfigurePlanCommand(p *program) *cobra.Command {
	o := &reconfigurePlanOptions{output: newOutput()}
	c := &cobra.Command{
		Use:   "plan",
		Short: "Show what a changed configuration means for each node",
		Long: `Show which fields of the configuration change, and what that means: which certificates are issued again, which
components are restarted in which order, which addons get new Pods, and what takes effect later. Manifests that were
changed manually, and that the change would replace, are listed separately. This command changes nothing.

Without a file and flags, it shows what this node lacks of the configuration that the cluster stores.`,
		Example: `  kubeadm reconfigure plan --config cluster.yaml

  # as unified diffs of files and objects
  kubeadm reconfigure plan --config cluster.yaml --diff

  # for scripts: exit code 2 if something is to be changed
  kubeadm reconfigure plan --config cluster.yaml --detailed-exitcode --output json`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return planReconfigure(p, c, o) },
	}
	targetsOf(o).bind(c.Flags(), flag.AddCertSAN, flag.Config, flag.CoreDNSReplicas, flag.Corefile, flag.DetailedExitCode, flag.Diff, flag.Edit,
		flag.FeatureGate, flag.IgnorePreflightErrors, flag.ImageRepository, flag.Kubeconfig, flag.Patches, flag.SetArg)
	o.output.bind(c.Flags())
	return c
}

// reconfigurePlan is the result as an object.
type reconfigurePlan struct {
	metav1.TypeMeta         `json:",inline"`
	Changes                 []config.FieldChange `json:"changes"`
	reconfiguration.Effects `json:",inline"`
	// Files are those that arguments name. They must be the same on each control plane node.
	Files []preflight.ArgumentFile `json:"files,omitempty"`
	// Unfinished is set if the change was begun, and the cluster does not store it yet.
	Unfinished bool `json:"unfinished,omitempty"`
	// Incomplete is set if the same command has to be run again once all nodes have followed.
	Incomplete bool `json:"incomplete,omitempty"`
	// NodeDrained are the fields for which a node has to be drained before its kubelet follows.
	NodeDrained []string `json:"nodeDrained,omitempty"`
	// ThisNode is what the node on which the command runs lacks of the configuration.
	ThisNode []string `json:"thisNode,omitempty"`
	// ManuallyChanged are the manifests of this node that were changed manually.
	ManuallyChanged []string `json:"manuallyChanged,omitempty"`
}

func planReconfigure(p *program, c *cobra.Command, o *reconfigurePlanOptions) (err error) {
	defer o.edited.finish(&err)
	ctx := c.Context()
	encode, err := o.output.encoder(ctx, p.World())
	if err != nil {
		return err
	}
	if encode != nil && o.Diff {
		return problem.New(errors.New("--diff is text, but --output asks for another format"),
			"leave out one of them")
	}
	h := runHost(p)
	if encode != nil || o.Diff {
		h.Report.Text.Out = io.Discard
	}
	r, err := run.Open(ctx, h, run.Command{Name: "reconfigure", Phases: workflow.ReconfigureApply,
		Selection: engine.Selection{Skip: []string{string(phaseindex.Preflight)}}, Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	o.DryRun = true
	here, e, err := openReconfigured(p, c, r, &o.reconfigureOptions)
	if err != nil {
		return err
	}
	wanted, err := (requestedChange{p, &o.reconfigureOptions}).find(ctx, e, here)
	if err != nil {
		return err
	}
	if wanted.nothing != "" && wanted.Change == nil { // what the cluster has already is a plan too
		r.Emit(engine.Info, wanted.nothing)
		return nil
	}
	plan, err := newReconfigurePlan(ctx, e, wanted.Wanted)
	if err != nil {
		return err
	}
	switch {
	case o.Diff:
		err = diffReconfigure(ctx, p, r, here, wanted.Wanted)
	case encode != nil:
		err = encode(p.Out, []any{plan})
	default:
		err = plan.write(p.Out, o.isChanging())
	}
	if err == nil && o.DetailedExitCode && !plan.isNothing() {
		return &problem.Problem{Err: errors.New("something is to be changed"), Code: problem.ExitFound}
	}
	return err
}

// newReconfigurePlan finds out what a change means.
func newReconfigurePlan(ctx context.Context, e *engine.Env, w reconfiguration.Wanted) (plan reconfigurePlan, err error) {
	plan = reconfigurePlan{TypeMeta: outputMeta("ReconfigurationPlan"), Changes: hideSecrets(w.Fields), Effects: w.Effects,
		Incomplete: w.IsFirst, Unfinished: w.Change.ID == w.Found && w.Change.Stored == nil}
	if plan.Files, err = preflight.ReadArgumentFiles(ctx, e.World, w.Node); err != nil {
		return plan, err
	}
	sans, err := reconfiguration.FindSANChanges(ctx, e, w.Before, w.Node)
	if err != nil {
		return plan, err
	}
	for _, s := range sans {
		plan.ThisNode = append(plan.ThisNode, w.Node.Paths.Cert(s.Certificate.Base))
	}
	for _, component := range staticpod.Components(w.Node) {
		file := w.Node.Paths.Manifest(component)
		rendered, err := staticpod.RenderPresent(ctx, e, w.Node, component)
		if err != nil {
			return plan, err
		}
		onDisk, err := e.World.ReadFile(ctx, file)
		if err != nil {
			return plan, err
		}
		same, err := reconfiguration.ComparePods(w.Before, w.Node, component)(onDisk, rendered.Data)
		if err != nil {
			return plan, err
		}
		if !same {
			plan.ThisNode = append(plan.ThisNode, file)
		}
		_, found, err := staticpod.FindManualChange(ctx, e, w.Before, w.Node, component)
		if err != nil {
			return plan, err
		}
		if found != nil {
			plan.ManuallyChanged = append(plan.ManuallyChanged, file)
		}
	}
	file := w.Node.Paths.KubeletConfig()
	rendered, err := kubeletfile.RenderConfig(ctx, e, w.Node)
	if err != nil {
		return plan, err
	}
	onDisk, err := state.ReadRequired(ctx, e.World, file)
	if err != nil {
		return plan, err
	}
	if !bytes.Equal(onDisk, rendered) {
		plan.ThisNode = append(plan.ThisNode, file)
	}
	running, err := reconfiguration.ReadKubelet(ctx, e.World, w.Node)
	if err != nil {
		return plan, err
	}
	wanted := &kubeletconfig.KubeletConfiguration{}
	err = yaml.Unmarshal(rendered, wanted)
	plan.NodeDrained = reconfiguration.DrainedFields(running, wanted)
	return plan, err
}

// isNothing reports whether neither the cluster nor this node lacks anything.
func (p reconfigurePlan) isNothing() bool {
	return len(p.Changes)+len(p.ThisNode) == 0 && !p.CoreDNS && !p.KubeProxy && !p.Unfinished
}

func (p reconfigurePlan) write(out io.Writer, isChanging bool) error {
	var b strings.Builder
	if len(p.Changes) == 0 && isChanging {
		b.WriteString("The cluster stores this configuration already.\n")
	}
	if len(p.Changes) > 0 {
		b.WriteString("The configuration changes:\n" + describeChanges(p.Changes) + "\n")
	}
	section := func(title string, lines ...string) {
		if len(lines) > 0 {
			b.WriteString(title + "\n")
			for _, line := range lines {
				b.WriteString("  " + line + "\n")
			}
			b.WriteString("\n")
		}
	}
	section("Each control plane node issues these certificates again, without a restart:", p.Certificates...)
	section("Each control plane node restarts, one node at a time:", p.Restarted...)
	if p.Kubelet {
		b.WriteString("Each node restarts its kubelet; containers of Pods that fit the node keep running.\n\n")
	}
	section("Drain each node before its kubelet changes these fields:", p.NodeDrained...)
	var addons []string
	if p.CoreDNS {
		addons = append(addons, "CoreDNS")
	}
	if p.KubeProxy {
		addons = append(addons, "kube-proxy")
	}
	section("New Pods are rolled out for:", addons...)
	section("Takes effect later:", p.Later...)
	var files []string
	for _, f := range p.Files {
		files = append(files, f.SHA256+"  "+untrusted.Line(f.Path)+" ("+untrusted.Line(f.Argument)+")")
	}
	section("Files that arguments name; copy them to each control plane node first, or apply the change with "+
		"--upload-certs (SHA-256 of this node's):", files...)
	section("Different on this node:", p.ThisNode...)
	section("Not as kubeadm writes it, before or after the change; it was changed manually, or with --patches, which "+
		"must be set again. It is replaced, and a backup is kept:", p.ManuallyChanged...)
	switch {
	case len(p.Changes) > 0:
		b.WriteString("To apply it: kubeadm reconfigure apply, with the same flags\n")
	case p.Unfinished:
		b.WriteString("The change was begun and is not complete. To complete it: kubeadm reconfigure apply, with the same flags\n")
	case len(p.ThisNode) > 0 || p.CoreDNS || p.KubeProxy:
		b.WriteString("To bring this node to the stored configuration: kubeadm reconfigure apply\n")
	default:
		b.WriteString("Nothing is to be changed on this node.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// diffReconfigure shows the changes of files and objects as diffs.
func diffReconfigure(ctx context.Context, p *program, r *run.Run, here existing.Machine,
	w reconfiguration.Wanted) error {
	how := config.RunOptions{DryRun: true, SkipPhases: []string{string(phaseindex.Preflight)}}
	if err := r.Begin(ctx, w.Node, how); err != nil {
		return err
	}
	d := &differ{real: p.World(), admin: here.As, context: 3, diffs: map[string]string{}}
	env := reconfigureEnv(ctx, p, w.Node, here.As, w.Intent)
	env.Emit = d.collect(ctx)
	if err := r.Execute(ctx, r.NewEnv(env)); err != nil {
		return err
	}
	return d.write(p.Out)
}
