package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/preflight"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/redact"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/workflow"
)

func newReconfigureCommand(p *program) *cobra.Command {
	c := newGroup("reconfigure", "Change the configuration of a running cluster",
		newReconfigurePlanCommand(p), newReconfigureApplyCommand(p), newReconfigureNodeCommand(p),
		newReconfigureUndoCommand(p), newReconfigureStatusCommand(p))
	c.Long = `Change the configuration of a running cluster: certificate names, arguments, environment variables and volumes of
the control plane components, image repositories, and the configuration of kubelets, kube-proxy and CoreDNS.

  1. kubeadm reconfigure plan    show what a changed configuration means for each node
  2. kubeadm reconfigure apply   change this control plane node, and then what the cluster stores
  3. kubeadm reconfigure node    on each of the other nodes, one at a time

If a component does not become healthy with the change, or new Pods of an addon do not run, everything is put back, and
the cluster keeps its configuration. To resume an interrupted command, run it again. "undo" returns to the configuration before
the latest change.`
	return c
}

// reconfigureOptions are the flags of the commands that change the configuration.
type reconfigureOptions struct {
	config.ReconfigureFlags
	config.ReconfigureNodeFlags
	File        string        `flag:"config"`
	Edit        bool          `flag:"edit"`
	Kubeconfig  string        `flag:"kubeconfig"`
	DryRun      bool          `flag:"dry-run"`
	Yes         bool          `flag:"yes"`
	KubeletArgs flag.TextList `flag:"kubelet-arg"`
	onWorkers   bool          // the command runs on workers too
	elsewhere   string        // what to do on a worker, if not "kubeadm reconfigure node"
	edited      editedText    // with --edit
	movesTo     string        // the address to which this node is about to move
}

// isChanging reports whether the user wants another configuration than the stored one.
func (o *reconfigureOptions) isChanging() bool {
	return o.File != "" || o.Edit || o.ReconfigureFlags.Given()
}

// onlyCoreDNS reports whether nothing but settings of CoreDNS itself is to be changed.
func (o *reconfigureOptions) onlyCoreDNS() bool {
	others := o.ReconfigureFlags
	others.Corefile, others.CoreDNSReplicas = "", nil
	return o.File == "" && !o.Edit && o.ReconfigureFlags.Given() && !others.Given()
}

func newReconfigureApplyCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{}
	c := &cobra.Command{
		Use:   "apply",
		Short: "Change the configuration of the cluster and of this control plane node",
		Long: `Change the configuration of the cluster and bring this control plane node to it. The documents in the file replace
what the cluster stores: a ClusterConfiguration, a KubeletConfiguration, a KubeProxyConfiguration. Flags change single
settings. The Corefile and the replicas of CoreDNS, which no document has, are set with flags too. Without any of them,
this node is brought to the configuration that the cluster stores, for example after its ConfigMaps were edited.

The cluster stores the new configuration once this node runs with it. Afterwards, run "kubeadm reconfigure node" on
each of the other nodes.

With --upload-certs, files referenced by component arguments, such as an audit policy, are uploaded once this node has
the change, together with the control plane certificates. They are encrypted with --certificate-key or a new key, and
deleted after two hours. The other control plane nodes download them with "kubeadm reconfigure node --certificate-key".`,
		Example: `  # the new configuration in a file
  kubeadm reconfigure apply --config cluster.yaml

  # one more name in the API server's certificate, without a restart
  kubeadm reconfigure apply --add-cert-san api.example.com

  # an argument
  kubeadm reconfigure apply --set-arg kube-apiserver:event-ttl=2h

  # another Corefile: new Pods of CoreDNS read it
  kubeadm reconfigure apply --corefile Corefile

  # in an editor
  kubeadm reconfigure apply --edit

  # an argument that names a file, and the file for the other control plane nodes
  kubeadm reconfigure apply --config cluster.yaml --upload-certs`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.completeUpload(p); err != nil {
				return err
			}
			return changeConfiguration(p, c, o, requestedChange{p, o})
		},
	}
	targetsOf(o).bind(c.Flags(), flag.AddCertSAN, flag.CertificateKey, flag.Config, flag.CoreDNSReplicas, flag.Corefile, flag.DryRun, flag.Edit,
		flag.FeatureGate, flag.IgnorePreflightErrors, flag.ImageRepository, flag.Kubeconfig, flag.Patches, flag.SetArg,
		flag.UploadCerts, flag.Yes)
	return withRunOutput(p, c)
}

func newReconfigureUndoCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{}
	c := &cobra.Command{
		Use:   "undo",
		Short: "Return to the configuration before the latest change",
		Long: `Return the cluster and this control plane node to the configuration before the latest change, unless it was changed in
another way since. Afterwards, run "kubeadm reconfigure node" on each of the other nodes. If it turns off a feature gate
that other nodes have, the API server keeps the gate until they have followed: the same command then completes the undo.`,
		Example: `  # print what would change
  kubeadm reconfigure undo --dry-run

  kubeadm reconfigure undo`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return changeConfiguration(p, c, o, undoneChange{})
		},
	}
	targetsOf(o).bind(c.Flags(), flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Patches,
		flag.Yes)
	return withRunOutput(p, c)
}

func newReconfigureNodeCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{onWorkers: true}
	c := &cobra.Command{
		Use:   "node",
		Short: "Bring another node to the configuration of the cluster",
		Long: `Bring a control plane node or a worker to the configuration that the cluster stores, after "kubeadm reconfigure
apply" has changed it. Run the command on one node at a time.

Arguments of the kubelet that only this node has are set with --kubelet-arg, also without a change of the cluster's
configuration. A kubelet that does not become healthy gets its previous arguments again. Labels in node-labels and
taints in register-with-taints are also set on the Node, which a kubelet only does when it registers. The taints of a
worker need an administrator: --kubeconfig.

With the --certificate-key that "kubeadm reconfigure apply --upload-certs" has printed, a control plane node downloads
the files referenced by component arguments. A file that differs is replaced, and a copy is kept beside it.`,
		Example: `  # print what would change
  kubeadm reconfigure node --dry-run

  kubeadm reconfigure node

  # with the files referenced by component arguments
  kubeadm reconfigure node --certificate-key KEY

  # an argument of this node's kubelet, and to remove it again
  kubeadm reconfigure node --kubelet-arg max-pods=50
  kubeadm reconfigure node --kubelet-arg max-pods-`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return reconfigureNode(p, c, o) },
	}
	targetsOf(o).bind(c.Flags(), flag.CertificateKey, flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig,
		flag.KubeletArg, flag.Patches)
	return withRunOutput(p, c)
}

// configurationChange is a change of the configuration that a command has found to be made.
type configurationChange struct {
	reconfiguration.Wanted
	nothing    string // why nothing is to be changed; empty if something is
	done       string // what is said of it once it is made
	incomplete error  // what is left to be done before the change that the user wants; nil for nothing

	keptFileHints []string // those of reconfiguration.Intent
}

// changeFinder finds the change that a command is to make.
type changeFinder interface {
	find(ctx context.Context, e *engine.Env, here existing.Machine) (configurationChange, error)
}

// changeConfiguration is a command on a control plane node that changes what the cluster stores.
func changeConfiguration(p *program, c *cobra.Command, o *reconfigureOptions, finder changeFinder) (err error) {
	defer o.edited.finish(&err)
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p), run.Command{Name: c.Parent().Name(), Phases: workflow.ReconfigureApply,
		Repeatable: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	wanted, err := finder.find(ctx, e, here)
	if err != nil {
		return err
	}
	if wanted.nothing != "" {
		r.Emit(engine.Info, wanted.nothing)
		return nil
	}
	intent := wanted.Intent
	intent.KeptFileHints = wanted.keptFileHints
	if wanted.IsFirst {
		e.Warn("this is the first of two changes: %s", reconfiguration.SecondHalf)
	}
	if !o.Yes && !o.DryRun {
		intent.Ask = func(ctx context.Context) error {
			what := "this node is about to be brought to the configuration that the cluster stores"
			if len(wanted.Fields) > 0 {
				r.Emit(engine.Printed, describeChanges(wanted.Fields))
				what = "the configuration of this cluster is about to be changed"
			}
			return confirm(ctx, p, r, what, flag.Yes)
		}
	}
	env := reconfigureEnv(ctx, p, wanted.Node, here.As, intent)
	err = executeReconfigure(ctx, r, wanted.Node, env, o.DryRun)
	var broken *reconfiguration.BrokenAddon
	if errors.As(err, &broken) && ctx.Err() == nil && wanted.Change.IsTakenBack() {
		return reconfiguredMachine{p, r, e, here}.takeBack(ctx, broken)
	}
	if err != nil || o.DryRun {
		return err
	}
	r.Emit(engine.Printed, wanted.done)
	if here.UploadCerts { // before anything that may fail, as nothing else has the key
		r.Emit(engine.Printed, "\nThe certificate key: "+here.CertificateKey+
			"\nWhat it decrypts is deleted after two hours. Keep the key secret.\n")
	}
	if wanted.incomplete != nil {
		return wanted.incomplete
	}
	showOutdatedNodes(ctx, r, e, here, wanted.Wanted)
	return nil
}

// reconfiguredMachine is the machine whose command changes the configuration.
type reconfiguredMachine struct {
	program *program
	run     *run.Run
	env     *engine.Env // to read the cluster
	here    existing.Machine
}

// takeBack undoes a change with which CoreDNS or kube-proxy does not run, before the cluster has stored it, and
// returns the cause.
func (m reconfiguredMachine) takeBack(ctx context.Context, broken *reconfiguration.BrokenAddon) error {
	m.run.Emit(engine.Info, fmt.Sprintf("taking the change back: %v", broken))
	m.here.UploadCerts, m.here.CertificateKey = false, ""
	w, err := reconfiguration.FindUndo(ctx, m.env, m.here)
	if err == nil {
		w.Change.Forgets = true // it is stored with the change, and outlives a kill
		w.Cause = broken
		err = m.run.Execute(ctx, m.run.NewEnv(reconfigureEnv(ctx, m.program, w.Node, m.here.As, w.Intent)))
	}
	if err != nil {
		return problem.New(fmt.Errorf("%w; and taking the change back failed: %w", broken, err),
			"to return to the configuration before: kubeadm reconfigure undo")
	}
	return fmt.Errorf("the change was taken back, and the cluster keeps its configuration: %w", broken)
}

// reconfigureNode is "kubeadm reconfigure node".
func reconfigureNode(p *program, c *cobra.Command, o *reconfigureOptions) (err error) {
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "reconfigure", Phases: workflow.ReconfigureNode,
		Repeatable: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	if here.Role != node.ControlPlane && o.CertificateKey != "" {
		return problem.New(errors.New("--certificate-key has an effect only on a control plane node"), "leave it out")
	}
	args, err := config.ParseKubeletArgs(o.KubeletArgs)
	if err != nil {
		return err
	}
	wanted, err := reconfiguration.FindStored(ctx, e, here, args)
	if err != nil {
		return err
	}
	env := reconfigureEnv(ctx, p, wanted.Node, here.As, wanted.Intent)
	if err := executeReconfigure(ctx, r, wanted.Node, env, o.DryRun); err != nil || o.DryRun {
		return err
	}
	r.Emit(engine.Printed, "\nSUCCESS! This node has the configuration of the cluster.\n")
	if here.Role == node.ControlPlane && wanted.Change.ID != "" { // others may not list Nodes
		showOutdatedNodes(ctx, r, e, here, wanted)
	}
	return nil
}

// reconfigureEnv is what the phases of a change need, with their intent.
func reconfigureEnv(ctx context.Context, p *program, n *node.Node, as state.Identity, intent any) engine.Env {
	return engine.Env{Local: n.Local, Node: engine.Resolved(n), Intent: intent, Admin: engine.As(as),
		Keys: newKeys(ctx, p.NewKey, n.Cluster.Algorithm, 0)}
}

func executeReconfigure(ctx context.Context, r *run.Run, n *node.Node, env engine.Env, dryRun bool) error {
	if err := r.Begin(ctx, n, config.RunOptions{DryRun: dryRun}); err != nil {
		return err
	}
	err := r.Execute(ctx, r.NewEnv(env))
	if err == nil && r.IsDryRun() {
		r.Emit(engine.Info, "the dry run is complete: nothing was changed")
	}
	return err
}

// openReconfigured reads what this machine is as a node. Its warnings bear the name of the command's group, such as address.
func openReconfigured(p *program, c *cobra.Command, r *run.Run,
	o *reconfigureOptions) (existing.Machine, *engine.Env, error) {
	local, err := o.ReconfigureNodeFlags.Local()
	if err != nil {
		return existing.Machine{}, nil, err
	}
	e := envOfNode(c.Context(), p, r, local, c.Parent().Name())
	if err := runChecks(c.Context(), e, preflight.Root()); err != nil {
		return existing.Machine{}, nil, err
	}
	access := existing.Options{Kubeconfig: named(c, o.Kubeconfig), RemoveTemporary: !o.DryRun}
	if !o.onWorkers {
		access.OnlyControlPlane = cmp.Or(o.elsewhere, "on a worker: kubeadm reconfigure node")
	}
	here, err := existing.Open(c.Context(), e, access)
	if err == nil {
		e.Local = here.Local
	}
	if err == nil && !o.DryRun && here.Role == node.ControlPlane {
		if o.movesTo != "" {
			return here, e, reconfiguration.RecoverMove(c.Context(), e, here, o.movesTo)
		}
		err = reconfiguration.Recover(c.Context(), e, here)
	}
	return here, e, err
}

// undoneChange takes back the latest change.
type undoneChange struct{}

func (undoneChange) find(ctx context.Context, e *engine.Env, here existing.Machine) (configurationChange, error) {
	w, err := reconfiguration.FindUndo(ctx, e, here)
	done := changedText
	if err == nil && w.Change.Forgets {
		done = describeForgotten(w.Change)
	}
	return configurationChange{Wanted: w, done: done}, err
}

// describeForgotten says that a change was taken back which a killed run had begun to take back, and which one is the
// latest then.
func describeForgotten(undo *reconfiguration.State) string {
	text := "\nSUCCESS! The interrupted change has been taken back, and the cluster keeps its configuration.\n"
	if latest := undo.Latest(); latest != nil {
		text += fmt.Sprintf("The latest change is now the one started on node %s at %s. To undo it as well: "+
			"kubeadm reconfigure undo\n", untrusted.Line(latest.Node), latest.Started.UTC().Format(time.RFC3339))
	}
	return text
}

// requestedChange is what the user wants by a file, an editor and flags.
type requestedChange struct {
	p *program
	o *reconfigureOptions
}

func (c requestedChange) find(ctx context.Context, e *engine.Env, here existing.Machine) (configurationChange, error) {
	request, err := c.read(ctx, e, here)
	if errors.Is(err, errNotEdited) {
		return configurationChange{nothing: err.Error()}, nil
	}
	if err != nil {
		return configurationChange{}, err
	}
	w, err := reconfiguration.FindWanted(ctx, e, here, request)
	found := configurationChange{Wanted: w, done: changedText}
	if err == nil && c.o.onlyCoreDNS() && w.Change.DNS == nil && w.Change.ID != w.Found {
		found.nothing = "CoreDNS has these settings, so nothing is to be changed"
	}
	if request.Base != "" {
		found.keptFileHints = c.keptFileHints()
	}
	return found, c.explainStale(err)
}

func (c requestedChange) read(ctx context.Context, e *engine.Env, here existing.Machine) (q reconfiguration.Request, err error) {
	q.Flags = c.o.ReconfigureFlags
	if q.DNS, err = c.readDNS(ctx); err != nil {
		return q, err
	}
	if !c.o.Edit {
		q.File, err = readConfig(ctx, c.p, c.p.World(), c.o.File)
		q.Base = baseOf(q.File.Data)
		return q, err
	}
	if c.o.File != "" {
		return q, problem.New(errors.New("--edit begins with the stored configuration, and --config replaces it"),
			"leave out one of them")
	}
	stored, err := existing.ReadStoredConfig(ctx, e.Reader(), here.As)
	if err != nil {
		return q, err
	}
	if q.Base, err = reconfiguration.BaseOf(here.Local, stored); err != nil {
		return q, err
	}
	q.File, c.o.edited, err = editConfig(ctx, c.p, storedBase{stored, q.Base}, c.o.ReconfigureFlags, here.BindPort)
	if errors.Is(err, errNotEdited) && c.o.ReconfigureFlags.Given() {
		err = nil
	}
	return q, err
}

// readDNS returns the settings of CoreDNS that the flags ask for.
func (c requestedChange) readDNS(ctx context.Context) (s reconfiguration.DNSSettings, err error) {
	flags := c.o.ReconfigureFlags
	s.Replicas = flags.CoreDNSReplicas
	if flags.Corefile == "" {
		return s, nil
	}
	data, err := state.ReadRequired(ctx, c.p.World(), flags.Corefile)
	if err == nil && !utf8.Valid(data) {
		err = fmt.Errorf("%s is not text", untrusted.Line(flags.Corefile))
	}
	if err != nil {
		return s, problem.New(fmt.Errorf("reading the Corefile: %w", err), fmt.Sprintf("set --%s to a text file that can be read", flag.Corefile))
	}
	s.Corefile = reconfiguration.NewCorefile(string(data))
	return s, nil
}

// describeChanges lists fields with their values before and after.
func describeChanges(fields []config.FieldChange) string {
	var b strings.Builder
	for _, f := range hideSecrets(fields) {
		fmt.Fprintf(&b, "  %s %s: %s -> %s\n", f.Kind, untrusted.Line(f.Field),
			untrusted.Line(cmp.Or(f.Before, "(not set)")), untrusted.Line(cmp.Or(f.After, "(not set)")))
	}
	return b.String()
}

// hideSecrets hides values that are secret by the name of their field or by their form.
func hideSecrets(fields []config.FieldChange) []config.FieldChange {
	all := []config.FieldChange{}
	hide := func(field, value string) string {
		return strings.TrimPrefix(redact.Text(field+": "+value), field+": ")
	}
	for _, f := range fields {
		f.Before, f.After = hide(f.Field, f.Before), hide(f.Field, f.After)
		f.Field = redact.Text(f.Field)
		all = append(all, f)
	}
	return all
}

const changedText = `
SUCCESS! The configuration of the cluster has been changed, and this node has it.
`

// showOutdatedNodes says which nodes do not have the configuration yet, and which may lack uploaded files. The
// command has succeeded if that cannot be found out.
func showOutdatedNodes(ctx context.Context, r *run.Run, e *engine.Env, here existing.Machine,
	w reconfiguration.Wanted) {
	change := w.Change
	if change.Forgets { // no other node has it
		if change = change.Latest(); change == nil {
			return
		}
	}
	concerned := *change
	concerned.ControlPlanes = concerned.ControlPlanes || here.UploadCerts
	all, err := concerned.ReadProgress(ctx, e.Reader(), here.As)
	if err != nil {
		e.Warn("which other nodes need the change is not known: %v; run kubeadm reconfigure status", err)
		if !here.UploadCerts {
			return
		}
	}
	r.Emit(engine.Printed, describeNext(here, all, err == nil, func() string { return describeNewFiles(e, w) }))
}
