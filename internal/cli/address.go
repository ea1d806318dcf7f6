package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/nodeaddress"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/run"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/workflow"
)

func newAddressCommand(p *program) *cobra.Command {
	c := newGroup("address", "Change the address of a node",
		newAddressChangeCommand(p), newAddressStatusCommand(p), newAddressFinishCommand(p))
	c.Long = `Bring a node to another IP address of its machine, before or after the previous one is gone. Move one node at a
time.

  1. give the machine the new address, beside the present one if possible
  2. kubeadm address change ADDRESS    on the node
  3. kubeadm address finish            on a control plane node, once nothing uses the previous address

As long as the machine has both addresses, "kubeadm address change" with the previous address is the way back. To
resume an interrupted command, run it again.

Not supported: another IP family. For another name: "kubeadm node-name". If all control plane nodes got other addresses at once, etcd has
no quorum: first give the machines their previous addresses again, as second ones.`
	return c
}

func newAddressChangeCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{onWorkers: true}
	c := &cobra.Command{
		Use:   "change [ADDRESS|CIDR|INTERFACE]",
		Short: "Bring this node to another address of its machine",
		Long: `Bring this node to another address of its machine: that one, or the one in a network, or of a network interface.
Without an argument it is the address of the interface with the default route.

On a worker, the kubelet is told its address if it was before, or if it would not choose the new one by itself. It is
restarted if its files change; containers keep running.

On a control plane node, the serving certificates of the API server and of etcd are issued for both addresses first. The
other members of etcd get the new address of this one. The API server answers the requests that it has, then etcd and the
API server are replaced, and the kubeconfigs of this machine lead to the new address. If a component does not become
healthy, the static Pods run as before, unless the previous address is gone. The command is refused if etcd would lose its quorum; where etcd has one or two
members, the API servers do not answer while this one restarts.

Pods that use the network of the host keep reporting the previous address; the command lists them. Load balancers, DNS
and the endpoint of the cluster are not changed.`,
		Example: `  # print what would change
  kubeadm address change 192.0.2.21 --dry-run

  # the address of a network interface
  kubeadm address change eth1`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return problem.New(fmt.Errorf("%s takes at most one argument, the new address, but got %d",
					c.CommandPath(), len(args)), "for example: "+c.CommandPath()+" 192.0.2.21")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return changeAddress(p, c, o, strings.Join(args, ""))
		},
	}
	targetsOf(o).bind(c.Flags(), flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Yes)
	return withRunOutput(p, c)
}

func changeAddress(p *program, c *cobra.Command, o *reconfigureOptions, selector string) (err error) {
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "address", Phases: workflow.ChangeAddress, Repeatable: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	facts, err := r.Facts(ctx, run.Needs{})
	if err != nil {
		return err
	}
	to, err := config.SelectNodeAddress(selector, facts)
	if err != nil {
		return err
	}
	o.movesTo = to
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	before := p.report.Changes() // such as temporary files that were removed
	wanted, err := nodeaddress.Find(ctx, e, here, to)
	if err != nil {
		return err
	}
	isPlane := here.Role == node.ControlPlane
	if isPlane && len(wanted.From) == 0 {
		r.Emit(engine.Info, "this node has the address "+to+" already, and no previous one")
		return nil
	}
	if isPlane && !o.Yes && !o.DryRun {
		wanted.Ask = func(ctx context.Context) error {
			return confirm(ctx, p, r, fmt.Sprintf("etcd and the API server of this node are about to move from %s to %s",
				here.Address, to), flag.Yes)
		}
	}
	env := reconfigureEnv(ctx, p, wanted.Node, wanted.As, wanted.Intent)
	if err := executeReconfigure(ctx, r, wanted.Node, env, o.DryRun); err != nil || o.DryRun {
		return err
	}
	if !isPlane && p.report.Changes() == before {
		r.Emit(engine.Info, "the Node has the address "+to+", and there is nothing to do")
		return nil
	}
	r.Emit(engine.Printed, "\nSUCCESS! This node has the address "+to+".\n")
	return nil
}

func newAddressFinishCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{elsewhere: "a worker needs no such step"}
	c := &cobra.Command{
		Use:   "finish",
		Short: "Forget the previous address of this control plane node",
		Long: `Issue the serving certificates of this control plane node again without the previous addresses, once nothing uses
them. A worker needs no such step. The command is refused as long as a file of this machine, the endpoint of the
cluster, kube-proxy or joining machines use one of them, or connections to other members of etcd may come from one.`,
		Example: "  kubeadm address finish",
		Args:    refuseArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return finishAddress(p, c, o) },
	}
	targetsOf(o).bind(c.Flags(), flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Yes)
	return withRunOutput(p, c)
}

func finishAddress(p *program, c *cobra.Command, o *reconfigureOptions) (err error) {
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "address", Phases: workflow.FinishAddress, Repeatable: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	wanted, err := nodeaddress.FindFinish(ctx, e, here)
	if err != nil {
		return err
	}
	if len(wanted.From) == 0 {
		r.Emit(engine.Info, "this node has no previous address")
		return nil
	}
	from := strings.Join(wanted.From, ", ")
	if !o.Yes && !o.DryRun {
		wanted.Ask = func(ctx context.Context) error {
			return confirm(ctx, p, r, "the certificates of this node are about to lose "+untrusted.Line(from), flag.Yes)
		}
	}
	env := reconfigureEnv(ctx, p, wanted.Node, wanted.As, wanted.Intent)
	if err := executeReconfigure(ctx, r, wanted.Node, env, o.DryRun); err != nil || o.DryRun {
		return err
	}
	r.Emit(engine.Printed, "\nSUCCESS! The certificates of this node are no longer issued for "+untrusted.Line(from)+".\n")
	return nil
}

func newAddressStatusCommand(p *program) *cobra.Command {
	o, out := &reconfigureOptions{onWorkers: true}, newOutput()
	c := &cobra.Command{
		Use:   "status",
		Short: "Show where this node has which address",
		Long: `Show the addresses of this machine, where this node has which of them, and which Pods that use the network of the host
report another one.`,
		Example: "  kubeadm address status",
		Args:    refuseArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return showAddress(p, c, o, &out) },
	}
	targetsOf(o).bind(c.Flags(), flag.Kubeconfig)
	out.bind(c.Flags())
	return c
}

// addressStatus is the result as an object.
type addressStatus struct {
	metav1.TypeMeta    `json:",inline"`
	nodeaddress.Status `json:",inline"`
}

func showAddress(p *program, c *cobra.Command, o *reconfigureOptions, out *output) (err error) {
	ctx := c.Context()
	encode, err := out.encoder(ctx, p.World())
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "address", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	o.DryRun = true
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	found, err := nodeaddress.ReadStatus(ctx, e, here)
	if err != nil {
		return err
	}
	status := addressStatus{TypeMeta: outputMeta("AddressStatus"), Status: found}
	if encode != nil {
		return encode(p.Out, []any{status})
	}
	return status.write(p.Out)
}

func (s addressStatus) write(out io.Writer) error {
	fmt.Fprintf(out, "Node: %s\nAddresses of this machine: %s\n", untrusted.Line(s.Node), strings.Join(s.Addresses, ", "))
	if s.MovingTo != "" {
		fmt.Fprintf(out, "A move to %s is not complete: run \"kubeadm address change\" with it again, or with the present address\n",
			untrusted.Line(s.MovingTo))
	} else if len(s.From) > 0 {
		fmt.Fprintf(out, "Previous addresses, in the certificates until \"kubeadm address finish\": %s\n",
			untrusted.Line(strings.Join(s.From, ", ")))
	}
	fmt.Fprintln(out)
	w := report.NewTable(out, 10, "PLACE", "ADDRESS", "ON THIS MACHINE")
	for _, place := range s.Places {
		onMachine := "yes"
		if place.IsMissing {
			onMachine = "no"
		}
		w.Row(place.Name, place.Address, onMachine)
	}
	if err := w.Flush(); err != nil || len(s.Pods) == 0 {
		return err
	}
	fmt.Fprint(out, "\nPods that use the network of the host and report another address:\n\n")
	w = report.NewTable(out, 10, "NAMESPACE", "NAME", "ADDRESS")
	for _, pod := range s.Pods {
		w.Row(pod.Namespace, pod.Name, pod.Address)
	}
	return w.Flush()
}
