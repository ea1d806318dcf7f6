package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/nodename"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/run"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/workflow"
)

func newNodeNameCommand(p *program) *cobra.Command {
	c := newGroup("node-name", "Rename the host of a node, or the node itself", newNodeNameKeepCommand(p),
		newNodeNameChangeCommand(p), newNodeNameStatusCommand(p))
	c.Long = `Rename the host of a node. The Node keeps its name, and with it everything that is bound to that: its client
certificate, labels and taints, local volumes, the name of its etcd member.

  1. kubeadm node-name keep            on the node
  2. hostnamectl set-hostname NAME     and let /etc/hosts or DNS resolve both names

If the host was renamed first, "kubeadm node-name keep" repairs the node.

If the Node itself has to get another name, "kubeadm node-name change NAME" drains it and puts another Node in its place.
"kubeadm node-name status" shows what an interrupted command has left, and how to complete it.`
	return c
}

func newNodeNameKeepCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{onWorkers: true}
	c := &cobra.Command{
		Use:   "keep",
		Short: "Let this node keep its name when its host is renamed",
		Long: `Let this node keep its name when its host is renamed, before or afterwards.

A kubelet takes its name from the host, unless it is told one. After the host was renamed, a kubelet that starts has
another name than its client certificate: the API server refuses it, and the Node becomes NotReady. On a control plane
node it also replaces the static Pods.

The command writes the name in the client certificate to the kubelet's argument hostname-override, restarts the
kubelet, and waits until the Node is ready. A kubelet that does not become healthy gets its previous arguments again.
Containers keep running, unless a kubelet with the wrong name has replaced static Pods: those are replaced once more.`,
		Example: `  # print what would change
  kubeadm node-name keep --dry-run

  kubeadm node-name keep`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return keepNodeName(p, c, o) },
	}
	targetsOf(o).bind(c.Flags(), flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig)
	return withRunOutput(p, c)
}

func keepNodeName(p *program, c *cobra.Command, o *reconfigureOptions) (err error) {
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "node-name", Phases: workflow.KeepNodeName, Repeatable: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	before := p.report.Changes() // such as temporary files that were removed
	wanted, err := nodename.FindKeep(ctx, e, here)
	if err != nil {
		return err
	}
	env := reconfigureEnv(ctx, p, wanted.Node, wanted.As, wanted.Intent)
	if err := executeReconfigure(ctx, r, wanted.Node, env, o.DryRun); err != nil || o.DryRun {
		return err
	}
	name := untrusted.Line(wanted.Node.Name)
	if p.report.Changes() == before {
		r.Emit(engine.Info, "the kubelet is told that its Node is "+name+", and there is nothing to do")
		return nil
	}
	r.Emit(engine.Printed, "\nSUCCESS! Node "+name+" keeps its name, however this host is named.\n")
	return nil
}

func newNodeNameChangeCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{onWorkers: true}
	c := &cobra.Command{
		Use:   "change NAME",
		Short: "Give this node another name",
		Long: `Give this node another name. Kubernetes cannot rename a Node: the command puts another one in its place. If only the
host is renamed, let the Node keep its name instead: "kubeadm node-name keep".

The node is drained. A Node of the new name is created with the labels, taints and annotations of the present one. The
kubelet gets a client certificate for it and is restarted; on a control plane node with all static Pods, and the etcd
member gets the new name. Once the new Node is ready, the previous one is deleted with its Lease and its Pods, and the
serving certificates of a control plane node are issued for the new name.

On a worker an administrator's kubeconfig is needed: a kubelet can neither create another Node nor get a certificate
for it. To resume an interrupted command, run it again. As long as the previous Node exists, the same command with its
name is the way back.

Refused: a name that another Node or etcd member has, a node of a cloud provider, a node with local volumes, which are
bound to its name, and a change while an upgrade, a rotation of the CAs or another change is under way, or while etcd
is not healthy.`,
		Example: `  # print what would change
  kubeadm node-name change rack7 --dry-run

  # on a worker
  kubeadm node-name change rack7 --kubeconfig admin.conf`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return problem.New(fmt.Errorf("%s takes one argument, the new name, but got %d", c.CommandPath(), len(args)),
					"for example: "+c.CommandPath()+" rack7")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return changeNodeName(p, c, o, args[0]) },
	}
	targetsOf(o).bind(c.Flags(), flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Yes)
	return withRunOutput(p, c)
}

func changeNodeName(p *program, c *cobra.Command, o *reconfigureOptions, to string) (err error) {
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "node-name", Phases: workflow.ChangeNodeName, Repeatable: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	here, e, err := openReconfigured(p, c, r, o)
	if err == nil && !o.DryRun {
		err = nodename.Recover(ctx, e, here)
	}
	if err != nil {
		return err
	}
	wanted, err := nodename.FindRename(ctx, e, here, to)
	if err != nil {
		return err
	}
	if wanted.Done {
		r.Emit(engine.Info, "this node has the name "+untrusted.Line(to)+" already")
		return nil
	}
	if !o.Yes && !o.DryRun {
		wanted.Ask = func(ctx context.Context) error {
			return confirm(ctx, p, r, fmt.Sprintf("node %s is about to be drained, and replaced by a Node %s",
				untrusted.Line(wanted.From()), untrusted.Line(to)), flag.Yes)
		}
	}
	env := reconfigureEnv(ctx, p, wanted.Node, wanted.As, wanted.Rename)
	present := *wanted.Node // a dry run simulates its kubelet
	present.Name = here.Name
	if err := executeReconfigure(ctx, r, &present, env, o.DryRun); err != nil || o.DryRun {
		return err
	}
	r.Emit(engine.Printed, "\nSUCCESS! This node has the name "+untrusted.Line(to)+".\n")
	return nil
}

func newNodeNameStatusCommand(p *program) *cobra.Command {
	o, out := &reconfigureOptions{onWorkers: true}, newOutput()
	c := &cobra.Command{
		Use:   "status",
		Short: "Show which name this node has where, and what is not complete",
		Long: `Show which name this node has where and, if a change of its name was interrupted, the command that completes it. On a
control plane node, changes of other nodes' names and addresses that are not complete are shown too.`,
		Example: "  kubeadm node-name status",
		Args:    refuseArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return showNodeName(p, c, o, &out) },
	}
	targetsOf(o).bind(c.Flags(), flag.Kubeconfig)
	out.bind(c.Flags())
	return c
}

// nodeNameStatus is the result as an object.
type nodeNameStatus struct {
	metav1.TypeMeta `json:",inline"`
	nodename.Status `json:",inline"`
}

func showNodeName(p *program, c *cobra.Command, o *reconfigureOptions, out *output) (err error) {
	ctx := c.Context()
	encode, err := out.encoder(ctx, p.World())
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "node-name", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	o.DryRun = true
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	found, err := nodename.ReadStatus(ctx, e, here)
	if err != nil {
		return err
	}
	status := nodeNameStatus{TypeMeta: outputMeta("NodeNameStatus"), Status: found}
	if encode != nil {
		return encode(p.Out, []any{status})
	}
	return status.write(p.Out)
}

func (s nodeNameStatus) write(out io.Writer) error {
	fmt.Fprintf(out, "Node: %s\nHost: %s\n", untrusted.Line(s.Node), untrusted.Line(s.Host))
	if s.Change != nil {
		fmt.Fprintf(out, "The change of the name from %s to %s is not complete.\n", untrusted.Line(s.Change.From()),
			untrusted.Line(s.Change.To))
	}
	fmt.Fprintln(out)
	w := report.NewTable(out, 10, "PLACE", "NAME")
	for _, place := range s.Places {
		w.Row(untrusted.Line(place.Name), untrusted.Line(place.NodeName))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if s.Next != "" {
		fmt.Fprintf(out, "\nNext: %s\n", s.Next)
	}
	if s.Change != nil && !s.Change.IsBack() {
		if back := s.Change.Command(s.Change.Original); back != "" {
			fmt.Fprintf(out, "To take it back, as long as that Node exists: %s\n", back)
		}
	}
	if len(s.Others) == 0 {
		return nil
	}
	fmt.Fprint(out, "\nChanges of other nodes that are not complete:\n\n")
	w = report.NewTable(out, 10, "NODE", "CHANGE", "COMMAND ON THAT NODE")
	for _, c := range s.Others {
		what := "moves to " + c.MovingTo
		if c.MovingTo == "" {
			what = "renamed from " + c.RenamedFrom
		}
		w.Row(untrusted.Line(c.Node), untrusted.Line(what), c.Command)
	}
	return w.Flush()
}
