package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/preflight"
	"kubeadm/internal/redact"
	"kubeadm/internal/release"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/staticpod"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/upgrade"
	"kubeadm/internal/workflow"
)

// upgradeDiffOptions are the flags of "upgrade diff".
type upgradeDiffOptions struct {
	config.UpgradeDiffFlags
	file       string
	kubeconfig string
}

func newUpgradeDiffCommand(p *program) *cobra.Command {
	o := &upgradeDiffOptions{UpgradeDiffFlags: config.NewUpgradeDiffFlags(),
		kubeconfig: node.DefaultPaths().Kubeconfig("admin.conf")}
	c := &cobra.Command{
		Use:   "diff [version]",
		Short: "Show what an upgrade would change",
		Long: `Show what "kubeadm upgrade apply" would change on this control plane node and in the cluster, as unified diffs of
files and objects. The output marks manual changes to manifests, and leaves out the certificates that the upgrade
would renew. This command changes nothing.`,
		Example: `  kubeadm upgrade diff v1.37.1

  # without a version: show manual changes to the manifests
  kubeadm upgrade diff`,
		Args:              checkOptionalVersion,
		ValidArgsFunction: someOf(completeVersions(p)),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.Version = args[0]
			}
			return diffUpgrade(p, c, o)
		},
	}
	flagTargets{flag.Config: &o.file, flag.ContextLines: &o.ContextLines,
		flag.Kubeconfig: &o.kubeconfig}.bind(c.Flags())
	return c
}

func diffUpgrade(p *program, c *cobra.Command, o *upgradeDiffOptions) (err error) {
	ctx := c.Context()
	file, err := readConfig(ctx, p, p.World(), o.file)
	if err == nil && file.Given() {
		err = o.RefuseMixed(givenFlags(c))
	}
	if err != nil {
		return err
	}
	intent, context, how, err := config.UpgradeDiff(file, o.UpgradeDiffFlags)
	warn(p, "config", how.Warnings...)
	if err != nil {
		return err
	}
	h := runHost(p)
	h.Report.Text.Out = io.Discard // but for the diffs
	r, err := run.Open(ctx, h, run.Command{Name: "upgrade diff", Phases: workflow.UpgradeApply,
		Selection: engine.Selection{Skip: []string{string(phaseindex.Preflight)}}, Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	e := envOfNode(ctx, p, r, intent.Local, "upgrade")
	if err := runChecks(ctx, e, preflight.Root()); err != nil {
		return err
	}
	here, err := existing.Open(ctx, e, existing.Options{Kubeconfig: named(c, o.kubeconfig),
		OnlyControlPlane: "a worker has no manifests"})
	if err != nil {
		return err
	}
	intent.Local = here.Local
	releases := upgrade.Releases{Tool: e.Tool, Fetch: run.FetchVersion(ctx, r.World())}
	n, err := readUpgradedNode(ctx, e, here, intent, releases)
	if err != nil {
		return err
	}
	d := &differ{real: e.Reader(), admin: here.As, context: context, diffs: map[string]string{}}
	how.DryRun, how.SkipPhases = true, []string{string(phaseindex.Preflight)}
	if err := r.Begin(ctx, n, how); err != nil {
		return err
	}
	env := upgradeEnv(ctx, p, n, here.As, upgrade.Intent{Upgrade: intent})
	if err := d.markManualChanges(ctx, r.NewEnv(env).Named("upgrade"), n); err != nil {
		return err
	}
	env.Emit = d.collect(ctx)
	if err := r.Execute(ctx, r.NewEnv(env)); err != nil {
		return err
	}
	return d.write(p.Out)
}

// differ turns the changes of a dry run into diffs.
type differ struct {
	real    state.Reader // the machine and the cluster as they are
	admin   state.Identity
	context int

	mu    sync.Mutex
	diffs map[string]string // by target
	err   error
}

// collect returns the receiver of the dry run's events.
func (d *differ) collect(ctx context.Context) func(engine.Event) {
	return func(e engine.Event) {
		if e.Kind != engine.Did {
			return
		}
		text, err := d.diff(ctx, e.Change)
		d.mu.Lock()
		defer d.mu.Unlock()
		if err != nil && d.err == nil {
			d.err = err
		}
		if text != "" {
			d.diffs[e.Change.Target()] += text
		}
	}
}

// diff is the diff of what a change replaces. What a run leaves behind for itself, such as backups
// and its Lease, is not shown.
func (d *differ) diff(ctx context.Context, c change.Change) (string, error) {
	switch c := c.(type) {
	case change.WriteFile:
		if strings.HasPrefix(c.Path, node.DefaultPaths().Tmp()+"/") {
			return "", nil
		}
		if c.Secret {
			return fmt.Sprintf("# %s: changed; its contents are secret\n", c.Path), nil
		}
		old, err := state.ReadOptional(ctx, d.real, c.Path)
		if err != nil {
			return "", err
		}
		return d.compare(c.Path, string(old), "new "+d.kindOf(c.Path), string(c.Data)), nil
	case change.WriteKeyPair:
		return fmt.Sprintf("# %s and %s: changed; the key is secret\n", c.Key.Path, c.Cert.Path), nil
	case change.ApplyObject:
		return d.diffObject(ctx, state.RefOf(c.Object, c.As), c.Object, c.MergeInto)
	case change.MutateObject:
		return d.diffObject(ctx, state.RefOf(c.Object, c.As), c.Object,
			func(now *unstructured.Unstructured) (*unstructured.Unstructured, error) {
				after := now.DeepCopy()
				return after, c.Mutate(after)
			})
	}
	return "", nil
}

func (d *differ) kindOf(file string) string {
	if strings.HasPrefix(file, node.DefaultPaths().Manifests()+"/") {
		return "manifest"
	}
	return "file"
}

// diffObject is the diff of an object, as it is and as it will be.
func (d *differ) diffObject(ctx context.Context, ref state.Ref, wanted state.Object,
	merge func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (string, error) {
	if ref.GVK.Kind == "Lease" || ref.Name == manifest.Reconfiguration {
		return "", nil
	}
	now, err := d.real.Object(ctx, ref)
	var before string
	var after *unstructured.Unstructured
	switch {
	case apierrors.IsNotFound(err):
		after, err = change.ToUnstructured(wanted)
	case err == nil:
		if after, err = merge(now); err == nil {
			// The API server fills in defaults, which no change removes.
			before = change.RenderYAML(change.WithFieldsOf(after, now))
		}
	}
	if err != nil {
		return "", err
	}
	name := strings.TrimPrefix(ref.Target(), "object:")
	return d.compare(name, before, "new object", change.RenderYAML(after)), nil
}

// compare is the diff of two texts without secrets.
func (d *differ) compare(name, before, newName, after string) string {
	hide := redact.Text
	if name == "ConfigMap:kube-system/coredns" {
		hide = redact.Corefile
	}
	hiddenBefore, hiddenAfter := hide(before), hide(after)
	if hiddenBefore == hiddenAfter && before != after {
		return fmt.Sprintf("# %s: a secret value in it changes\n", name)
	}
	return upgrade.Diff(upgrade.Text{Name: name, Content: hiddenBefore}, upgrade.Text{Name: newName, Content: hiddenAfter}, d.context)
}

// markManualChanges shows how manifests differ from what kubeadm writes for the current version.
func (d *differ) markManualChanges(ctx context.Context, e *engine.Env, wanted *node.Node) error {
	present, _, err := existing.ReadNode(ctx, d.real, d.admin, wanted.Local, release.Target{})
	if err != nil {
		return err
	}
	for _, component := range staticpod.Components(wanted) {
		made, found, err := staticpod.FindManualChange(ctx, e, present, wanted, component)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		file := wanted.Paths.Manifest(component)
		d.diffs[change.FileTarget(file)] = "# changed manually: differs from what this kubeadm writes " +
			"for the current version\n" +
			d.compare("as kubeadm writes it", string(made), file, string(found)) +
			"# what the upgrade changes:\n"
	}
	return nil
}

// write writes the diffs, sorted by what they are about.
func (d *differ) write(out io.Writer) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	for _, target := range slices.Sorted(maps.Keys(d.diffs)) {
		if _, err := io.WriteString(out, untrusted.Screen(d.diffs[target])); err != nil {
			return err
		}
	}
	return nil
}
