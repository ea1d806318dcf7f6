package cli

import (
	"github.com/spf13/cobra"

	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/nodename"
	"kubeadm/internal/run"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/workflow"
)

func newNodeNameCommand(p *program) *cobra.Command {
	c := newGroup("node-name", "Keep the name of a node whose host is renamed", newNodeNameKeepCommand(p))
	c.Long = `Rename the host of a node. The Node keeps its name, and with it everything that is bound to that: its client
certificate, labels and taints, local volumes, the name of its etcd member.

  1. kubeadm node-name keep            on the node
  2. hostnamectl set-hostname NAME     and let /etc/hosts or DNS resolve both names

If the host was renamed first, "kubeadm node-name keep" repairs the node.

Not supported: another name for the Node itself. Remove the node and join it again under that name.`
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
	wanted, err := nodename.FindKeep(ctx, e, here)
	if err != nil {
		return err
	}
	env := reconfigureEnv(ctx, p, wanted.Node, wanted.As, wanted.Intent)
	if err := executeReconfigure(ctx, r, wanted.Node, env, o.DryRun); err != nil || o.DryRun {
		return err
	}
	name := untrusted.Line(wanted.Node.Name)
	if !p.report.Changed() {
		r.Emit(engine.Info, "the kubelet is told that its Node is "+name+", and there is nothing to do")
		return nil
	}
	r.Emit(engine.Printed, "\nSUCCESS! Node "+name+" keeps its name, however this host is named.\n")
	return nil
}
