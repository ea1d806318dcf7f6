package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/preflight"
	"kubeadm/internal/release"
	"kubeadm/internal/report"
	"kubeadm/internal/rotation"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
)

func newRotateCACommand(p *program) *cobra.Command {
	c := newGroup("rotate-ca", "Replace the CAs and the service account key in stages",
		newRotationStageCommand(p, rotation.Trust, stageHelp{"Generate new CAs, and trust them alongside the old ones",
			`Stage 1. The first control plane node generates new CAs and a new service account key. Each node then trusts both
the old and the new ones; the new ones do not sign anything yet.`},
			flag.CA, flag.CertificateKey),
		newRotationStageCommand(p, rotation.Sign, stageHelp{"Sign with the new CAs",
			`Stage 2. Node by node, the new CAs and the new key start to sign certificates and tokens. kube-proxy and CoreDNS are
restarted. The stage can begin once all nodes trust the new CAs. The command lists Pods with a service account token
that have been running since before then: they would not trust the API server's new CA. After a control plane node
that joined with the old keys has caught up, run the command on each worker once more.`}, flag.IgnoreRunningPods),
		newRotationStageCommand(p, rotation.Finish, stageHelp{"Remove the old CAs",
			`Stage 3. The old CAs are no longer trusted, and the files look as they do without a rotation. The stage can begin once
all nodes use certificates of the new CAs and no Pod can hold a token signed with the old key: by default, an hour after
stage 2 on the last control plane node, or once those Pods have been restarted. It cannot be undone.

The cluster cannot see which certificate a kubelet uses. For a worker, the command relies on two things: that "sign" ran
on it after all control plane nodes had begun to sign with the new CA, and the CertificateSigningRequests of the last
hour, which are all that the cluster keeps. A kubelet whose certificate has been replaced in some other way since then
may be locked out: run "sign" on its node once more first.`},
			flag.IgnoreRunningPods),
		newRotationStageCommand(p, rotation.Undo, stageHelp{"Return to the old CAs",
			`Return to the old CAs. This is possible until stage 3. After stage 1, the command removes the new CAs. After stage 2, it
first makes the old CAs sign again on each node; run it on each node once more to remove the new ones.`},
			flag.IgnoreRunningPods),
		newRotationStatusCommand(p))
	c.Long = `Replace the CAs of the cluster, the front proxy and etcd, and the key that signs service account tokens, without
downtime. Run each stage on every node: first on the control plane nodes, one at a time, then on the workers.

  1. kubeadm certs rotate-ca trust    trust the new CAs alongside the old ones
  2. kubeadm certs rotate-ca sign     sign with the new CAs
  3. kubeadm certs rotate-ca finish   remove the old CAs

To resume an interrupted stage, run it again. Before stage 3, "undo" returns to the old CAs. kubeadm refuses to
start a stage until every node has completed the previous one.`
	return c
}

// stageHelp are the texts of the command of a stage.
type stageHelp struct{ short, long string }

// rotationFlags are the flags of a stage.
type rotationFlags struct {
	rotation.Options
	certificateKey, kubeconfig string
	dryRun                     bool
}

func newRotationStageCommand(p *program, s rotation.Stage, help stageHelp,
	more ...flag.Name) *cobra.Command {
	o := &rotationFlags{}
	c := &cobra.Command{
		Use:   string(s),
		Short: help.short,
		Long:  help.long,
		Example: "  # print what would change\n  kubeadm certs rotate-ca " + string(s) +
			" --dry-run\n\n  kubeadm certs rotate-ca " + string(s),
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return rotateCA(p, c, o, s) },
	}
	targets := flagTargets{flag.CA: &o.Authorities, flag.CertificateKey: &o.certificateKey,
		flag.DryRun: &o.dryRun, flag.IgnoreRunningPods: &o.IgnoreRunningPods,
		flag.Kubeconfig: &o.kubeconfig}
	targets.bind(c.Flags(), append(more, flag.DryRun, flag.Kubeconfig)...)
	return c
}

// rotateCA brings this node to a stage of a CA rotation.
func rotateCA(p *program, c *cobra.Command, o *rotationFlags, s rotation.Stage) (err error) {
	ctx := c.Context()
	if err := rotation.CheckNames(o.Authorities); err != nil {
		return err
	}
	if o.certificateKey != "" {
		if _, err := pki.ParseCertificateKey(o.certificateKey); err != nil {
			return fmt.Errorf("--certificate-key: %w", err)
		}
	}
	phases := workflow.RotateCA(s, o.Options)
	// Copies of what a dry run would write would be copies of the keys of CAs.
	r, err := run.Open(ctx, runHost(p),
		run.Command{Name: "certs", Phases: phases, Repeatable: !o.dryRun})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	n, as, err := readRotatedNode(p, c, r, existing.Options{
		Kubeconfig: named(c, o.kubeconfig), Recover: !o.dryRun})
	if err != nil {
		return err
	}
	n.CertificateKey = o.certificateKey
	if err := r.Begin(ctx, n, config.RunOptions{DryRun: o.dryRun}); err != nil {
		return err
	}
	err = r.Execute(ctx, r.NewEnv(engine.Env{Local: n.Local, Node: engine.Resolved(n),
		Keys: newKeys(ctx, p.NewKey, n.Cluster.Algorithm, 0), Admin: engine.As(as)}))
	if err == nil && r.IsDryRun() {
		r.Emit(engine.Info, "the dry run is complete: nothing was changed")
	}
	return err
}

// readRotatedNode reads what this machine is as a node, and as whom it accesses the cluster: as the
// administrator on a control plane node, as its kubelet on others.
func readRotatedNode(p *program, c *cobra.Command, r *run.Run,
	o existing.Options) (*node.Node, state.Identity, error) {
	ctx := c.Context()
	e := envOfNode(ctx, p, r, config.NewLocal(), "rotate-ca")
	if err := runChecks(ctx, e, preflight.Root()); err != nil {
		return nil, state.Identity{}, err
	}
	here, err := existing.Open(ctx, e, o)
	if err != nil {
		return nil, state.Identity{}, err
	}
	n, err := here.Node(ctx, e, release.Target{})
	return n, here.As, err
}

func newRotationStatusCommand(p *program) *cobra.Command {
	kubeconfig, out := "", newOutput()
	c := &cobra.Command{
		Use:   "status",
		Short: "Show which stage each node has reached",
		Long: `Show the stage of the CA rotation in progress, and the stage that each node has reached. Run the command on a control
plane node.`,
		Example: "  kubeadm certs rotate-ca status",
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return showRotation(p, c, kubeconfig, &out)
		},
	}
	flagTargets{flag.Kubeconfig: &kubeconfig}.bind(c.Flags())
	out.bind(c.Flags())
	return c
}

// rotationStatus is the result as an object.
type rotationStatus struct {
	metav1.TypeMeta `json:",inline"`
	InProgress      bool                    `json:"inProgress"`
	Stage           rotation.Stage          `json:"stage,omitempty"`
	Authorities     []string                `json:"authorities,omitempty"`
	Started         *metav1.Time            `json:"started,omitempty"`
	Switched        *metav1.Time            `json:"switched,omitempty"`
	Nodes           []rotation.NodeProgress `json:"nodes,omitempty"`
}

func showRotation(p *program, c *cobra.Command, kubeconfig string, out *output) (err error) {
	ctx := c.Context()
	encode, err := out.encoder(ctx, p.World())
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "certs", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	n, as, err := readRotatedNode(p, c, r, existing.Options{Kubeconfig: named(c, kubeconfig)})
	if err != nil {
		return err
	}
	reader := r.NewEnv(engine.Env{Local: n.Local}).Reader()
	found, err := rotation.Read(ctx, reader, as)
	if err != nil {
		return err
	}
	status := rotationStatus{TypeMeta: outputMeta("CARotationStatus")}
	if found != nil {
		status.InProgress, status.Stage, status.Authorities = true, found.Stage, found.Authorities
		status.Started, status.Switched = &found.Started, found.Switched
		if status.Nodes, err = found.ReadProgress(ctx, reader, as); err != nil {
			return err
		}
	}
	if encode != nil {
		return encode(p.Out, []any{status})
	}
	if found == nil {
		_, err = fmt.Fprintln(p.Out, "No CA rotation is in progress.")
		return err
	}
	fmt.Fprintf(p.Out, "Stage: %s (of %s), started %s\n\n", status.Stage,
		strings.Join(status.Authorities, ", "), status.Started.UTC().Format(time.RFC3339))
	w := report.NewTable(p.Out, 10, "NODE", "ROLE", "STAGE")
	for _, n := range status.Nodes {
		role, stage := "worker", string(n.Stage)
		if n.ControlPlane {
			role = "control plane"
		}
		if stage == "" {
			stage = "none"
		}
		w.Row(n.Name, role, stage)
	}
	return w.Flush()
}
