package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/reconfiguration"
	"kubeadm/internal/report"
	"kubeadm/internal/run"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/workflow"
)

func newEndpointCommand(p *program) *cobra.Command {
	c := newGroup("endpoint", "Change the control plane endpoint of a running cluster",
		newEndpointChangeCommand(p), newEndpointStatusCommand(p), newEndpointFinishCommand(p),
		newEndpointFollowCommand(p))
	c.Long = `Change the DNS name or address by which nodes and users reach the API servers, or its port; or give an endpoint to a
cluster that was created without one, so that more control plane nodes can join.

  1. kubeadm endpoint change HOST[:PORT]   on a control plane node
  2. kubeadm reconfigure node              on each of the other nodes, one at a time
  3. kubeadm endpoint finish               on a control plane node, once all nodes use the new endpoint

Until the last step, the certificates of the API servers are valid for both endpoints, and machines can join through
either. Up to then "kubeadm reconfigure undo" returns to the previous endpoint, unless another change of the
configuration has followed. To resume an interrupted command, run it again.

A worker that can no longer reach the previous endpoint follows with "kubeadm endpoint follow", by asking another API
server.`
	return c
}

func newEndpointChangeCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{}
	c := &cobra.Command{
		Use:   "change HOST[:PORT]",
		Short: "Change the control plane endpoint of the cluster",
		Long: `Change the control plane endpoint of the cluster to another DNS name, address or port. Before anything is changed, the
command connects to the new endpoint and verifies, by the CA of the cluster, that an API server of this cluster answers
there.

Each API server needs a certificate for the new endpoint first. As long as one lacks it, the command adds it to the
configuration and to the certificate of this node, and ends with an error that lists the other control plane nodes. Then this node, kube-proxy
and joining machines get the new endpoint, and the cluster stores it. Afterwards, run "kubeadm reconfigure node" on each
of the other nodes, whose kubelets keep using the previous endpoint until then.

Copies of admin.conf, load balancers and DNS are not changed.`,
		Example: `  # print what would change
  kubeadm endpoint change api.example.com --dry-run

  # a load balancer on another port
  kubeadm endpoint change 192.0.2.100:8443`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return problem.New(fmt.Errorf("%s takes one argument, the new endpoint, but got %d", c.CommandPath(),
					len(args)), "for example: "+c.CommandPath()+" api.example.com:6443")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return changeConfiguration(p, c, o, endpointChange{args[0]})
		},
	}
	targetsOf(o).bind(c.Flags(), flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Patches, flag.Yes)
	return withRunOutput(p, c)
}

// endpointChange leads to another endpoint.
type endpointChange struct{ endpoint string }

// find finds the change of the endpoint, or first that of the certificates.
func (c endpointChange) find(ctx context.Context, e *engine.Env, here existing.Machine) (configurationChange, error) {
	w, err := reconfiguration.FindEndpoint(ctx, e, here, c.endpoint)
	found := configurationChange{Wanted: w.Wanted, done: changedText}
	if err != nil {
		return found, err
	}
	if len(w.Behind) == 0 {
		switch {
		case w.Done:
			found.nothing = "this is the endpoint of the cluster already, and no change of it is unfinished"
		case w.Change.Endpoint != nil: // otherwise the URL stays the same
			found.done = endpointChangedText
		}
		return found, nil
	}
	found.incomplete = problem.New(fmt.Errorf("the endpoint has not been changed yet: these control plane nodes are not ready "+
		"for %s:\n  %s", untrusted.Line(w.Host), strings.Join(w.Behind, "\n  ")), "on each of them: kubeadm reconfigure node",
		"if one is permanently lost, delete its Node: kubectl delete node NAME",
		untrusted.CommandHint("when all of them are ready, again on this node", "kubeadm endpoint change", c.endpoint))
	if w.Done {
		return found, found.incomplete
	}
	e.Say("the certificate of this node's API server becomes valid for %s; the endpoint changes once these control plane "+
		"nodes are ready too:\n  %s", untrusted.Line(w.Host), strings.Join(w.Behind, "\n  "))
	found.done = "\nThe certificate of this node's API server is valid for " + untrusted.Line(w.Host) + ".\n"
	return found, nil
}

const endpointChangedText = `
SUCCESS! This node, kube-proxy and joining machines use the new endpoint. The previous one stays valid
until "kubeadm endpoint finish".
`

// endpointFinish takes the previous endpoint out of the certificates.
type endpointFinish struct{}

func (endpointFinish) find(ctx context.Context, e *engine.Env, here existing.Machine) (configurationChange, error) {
	w, err := reconfiguration.FindEndpointFinish(ctx, e, here)
	found := configurationChange{Wanted: w.Wanted, done: endpointFinishedText}
	if len(w.Kept) > 0 {
		found.done = "\nSUCCESS! The change of the endpoint is finished. The certificates stay valid for names that\n" +
			"apiServer.certSANs lists: " + untrusted.Line(strings.Join(w.Kept, ", ")) + ".\n"
	}
	if w.Done {
		found.nothing = "no change of the endpoint is unfinished"
	}
	return found, err
}

const endpointFinishedText = `
SUCCESS! The change of the endpoint is finished. The certificates of this node are no longer issued for the one from
before.
`

func newEndpointFinishCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{}
	c := &cobra.Command{
		Use:   "finish",
		Short: "Finish the change of the endpoint",
		Long: `Finish the change of the endpoint, once every node uses the new one: the certificate of this node's API server is issued
again without the host of the previous endpoint. Afterwards, run "kubeadm reconfigure node" on the other control
plane nodes. The command is refused as long as a node has not followed.`,
		Example: "  kubeadm endpoint finish",
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return changeConfiguration(p, c, o, endpointFinish{})
		},
	}
	targetsOf(o).bind(c.Flags(), flag.DryRun, flag.IgnorePreflightErrors, flag.Kubeconfig, flag.Patches, flag.Yes)
	return withRunOutput(p, c)
}

func newEndpointFollowCommand(p *program) *cobra.Command {
	o := &reconfigureOptions{onWorkers: true}
	c := &cobra.Command{
		Use:   "follow [HOST[:PORT]]",
		Short: "Lead the kubelet of this worker to the endpoint of the cluster",
		Long: `Lead the kubelet of this worker to the endpoint of the cluster, also if the one in its kubeconfig leads nowhere any more.
The command asks the API server at HOST, such as the address of a control plane node, for the endpoint; without HOST, the
one in the kubeconfig. It verifies it by the CA that the node has, and authenticates with the certificate of the kubelet,
so it needs no token and no administrator. Then it verifies the endpoint in the same way, writes it to the kubeconfig and
restarts the kubelet; containers keep running. If the kubelet does not become ready, it gets its kubeconfig from before.`,
		Example: `  # print what would change
  kubeadm endpoint follow 192.0.2.11:6443 --dry-run

  kubeadm endpoint follow 192.0.2.11:6443`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return problem.New(fmt.Errorf("%s takes at most one argument, an API server, but got %d", c.CommandPath(),
					len(args)), "for example: "+c.CommandPath()+" 192.0.2.11:6443")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return followEndpoint(p, c, o, args) },
	}
	targetsOf(o).bind(c.Flags(), flag.DryRun, flag.IgnorePreflightErrors)
	return withRunOutput(p, c)
}

func followEndpoint(p *program, c *cobra.Command, o *reconfigureOptions, args []string) (err error) {
	ctx := c.Context()
	server := ""
	if len(args) > 0 {
		if server, err = config.ServerURL(args[0]); err != nil {
			return err
		}
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "endpoint", Phases: workflow.ReconfigureNode,
		Repeatable: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	if here.Role == node.ControlPlane {
		return problem.New(errors.New("this machine is a control plane node: its kubelet connects to the API server beside it"),
			"to bring the node to the configuration of the cluster: kubeadm reconfigure node")
	}
	here.As.Server = server
	wanted, err := reconfiguration.FindFollow(ctx, e, here)
	if err != nil {
		return err
	}
	if wanted.Done {
		r.Emit(engine.Info, "the kubelet of this node connects to "+untrusted.Line(wanted.Host)+" already, the endpoint of the cluster")
		return nil
	}
	env := reconfigureEnv(ctx, p, wanted.Node, here.As, wanted.Intent)
	if err := executeReconfigure(ctx, r, wanted.Node, env, o.DryRun); err != nil || o.DryRun {
		return err
	}
	r.Emit(engine.Printed, "\nSUCCESS! The kubelet of this node connects to "+
		untrusted.Line(wanted.Change.Endpoint.To)+".\n")
	return nil
}

func newEndpointStatusCommand(p *program) *cobra.Command {
	o, out := &reconfigureOptions{}, newOutput()
	c := &cobra.Command{
		Use:   "status",
		Short: "Show which nodes use the new endpoint",
		Long: `Show the endpoint of the cluster and, until a change of it is finished, the previous one and which nodes have
followed. Run the command on a control plane node.`,
		Example: "  kubeadm endpoint status",
		Args:    refuseArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return showEndpoint(p, c, o, &out) },
	}
	targetsOf(o).bind(c.Flags(), flag.Kubeconfig)
	out.bind(c.Flags())
	return c
}

// endpointStatus is the result as an object.
type endpointStatus struct {
	metav1.TypeMeta `json:",inline"`
	// Endpoint is the control plane endpoint that the cluster stores; empty if it has none.
	Endpoint string `json:"endpoint,omitempty"`
	// Change is what has not been finished.
	Change *endpointChangeStatus `json:"change,omitempty"`
}

type endpointChangeStatus struct {
	reconfiguration.EndpointChange `json:",inline"`
	Node                           string       `json:"node"` // where the latest change was begun
	Started                        metav1.Time  `json:"started"`
	Stored                         *metav1.Time `json:"stored,omitempty"`
	// Finishing is the node on which the last step was begun; empty before that.
	Finishing string                         `json:"finishing,omitempty"`
	Nodes     []reconfiguration.NodeProgress `json:"nodes"`
}

func showEndpoint(p *program, c *cobra.Command, o *reconfigureOptions, out *output) (err error) {
	ctx := c.Context()
	encode, err := out.encoder(ctx, p.World())
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "endpoint", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	o.DryRun = true
	here, e, err := openReconfigured(p, c, r, o)
	if err != nil {
		return err
	}
	n, err := existing.ReadCluster(ctx, e, here.As)
	if err != nil {
		return err
	}
	status := endpointStatus{TypeMeta: outputMeta("EndpointStatus"), Endpoint: n.Cluster.Endpoint}
	found, err := reconfiguration.Read(ctx, e.Reader(), here.As)
	if err != nil {
		return err
	}
	if begun := found.EndpointState(); begun != nil {
		status.Change = &endpointChangeStatus{EndpointChange: *begun.Endpoint, Node: begun.Node, Started: begun.Started,
			Stored: begun.Stored}
		if begun != found {
			status.Change.Finishing = found.Node
		}
		if status.Change.Nodes, err = begun.ReadProgress(ctx, e.Reader(), here.As); err != nil {
			return err
		}
	}
	if encode != nil {
		return encode(p.Out, []any{status})
	}
	return status.write(p.Out)
}

func (s endpointStatus) write(out io.Writer) error {
	endpoint := untrusted.Line(s.Endpoint)
	if endpoint == "" {
		endpoint = "none"
	}
	fmt.Fprintf(out, "Endpoint: %s\n", endpoint)
	if s.Change == nil {
		_, err := fmt.Fprintln(out, "No change of it is unfinished.")
		return err
	}
	stored := "not completed on that node yet"
	if s.Change.Stored != nil {
		stored = "stored in the cluster " + s.Change.Stored.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(out, "Changes from %s to %s, begun on node %s %s, %s\n\n", untrusted.Line(s.Change.From[0]),
		untrusted.Line(s.Change.To), untrusted.Line(s.Change.Node), s.Change.Started.UTC().Format(time.RFC3339), stored)
	if err := writeProgress(out, s.Change.Nodes); err != nil || s.Change.Stored == nil {
		return err
	}
	next := "Next: kubeadm endpoint finish"
	for _, n := range s.Change.Nodes {
		if !n.Done {
			next = "Next, on each node that is not up to date: kubeadm reconfigure node"
		}
	}
	if s.Change.Finishing != "" {
		next = "The last step was begun on node " + untrusted.Line(s.Change.Finishing) + " and has not been completed.\n" +
			"To complete it: kubeadm endpoint finish; to return to both endpoints: kubeadm reconfigure undo"
	}
	_, err := fmt.Fprintln(out, "\n"+next)
	return err
}

// writeProgress writes a table of nodes.
func writeProgress(out io.Writer, nodes []reconfiguration.NodeProgress) error {
	w := report.NewTable(out, 10, "NODE", "ROLE", "UP TO DATE")
	for _, n := range nodes {
		role, followed := "worker", "no"
		if n.ControlPlane {
			role = "control plane"
		}
		if n.Done {
			followed = "yes"
		}
		w.Row(n.Name, role, followed)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var again []string
	for _, n := range nodes {
		if n.Reregistered {
			again = append(again, untrusted.Line(n.Name))
		}
	}
	if len(again) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(out, "\nThe Nodes of these machines were registered again after the change, so it is not known whether the machines "+
		"have it:\n  %s\nOn each of them: kubeadm reconfigure node\n", strings.Join(again, ", "))
	return err
}
