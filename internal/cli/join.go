package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"kubeadm/internal/change"
	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/flag"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/phaseindex"
	"kubeadm/internal/run"
	"kubeadm/internal/workflow"
)

func newJoinCommand(p *program) *cobra.Command {
	t := tree{name: "join", argument: "[api-server-endpoint]", phases: workflow.Join,
		args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%s takes one endpoint, host:port, but got %q", c.CommandPath(),
					args)
			}
			return nil
		},
		takesArgument: func(p engine.Phase) bool { // those that look for the cluster
			return slices.Contains(p.Flags, flag.DiscoveryToken)
		}}
	t.newRun = func(sel engine.Selection) (flagTargets, runFunc) {
		o := &joinOptions{JoinFlags: config.NewJoinFlags()}
		return targetsOf(o), func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.Endpoint = args[0]
			}
			return runJoin(p, c, o, sel)
		}
	}
	return withRunOutput(p, t.command(&cobra.Command{
		Use:   "join [api-server-endpoint]",
		Short: "Join this machine to a cluster",
		Long: `Join this machine to an existing cluster as a worker or as a control plane node.
"kubeadm init" prints the join command with the endpoint, the token and the CA hash. To print a new one, run
"kubeadm token create --print-join-command" on a control plane node.`,
		Example: `  # as a worker
  kubeadm join 192.0.2.10:6443 --token abcdef.0123456789abcdef \
    --discovery-token-ca-cert-hash sha256:...

  # as an additional control plane node, with the uploaded certificates
  kubeadm join cluster.example:6443 --token abcdef.0123456789abcdef \
    --discovery-token-ca-cert-hash sha256:... --control-plane --certificate-key ...

  # with a discovery file
  kubeadm join --discovery-file cluster-info.yaml --tls-bootstrap-token abcdef.0123456789abcdef`,
	}, flag.KubeconfigDir))
}

// joinOptions are the flags of join and its phases.
type joinOptions struct {
	config.JoinFlags
	File string `flag:"config"`
}

// runJoin is "kubeadm join", or one of its phases.
func runJoin(p *program, c *cobra.Command, o *joinOptions, sel engine.Selection) (err error) {
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p),
		run.Command{Name: "join", Phases: workflow.Join, Selection: sel, Journaled: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)

	file, err := readConfigBesideFlags(p, c, o.File, o.RefuseMixed)
	if err != nil {
		return err
	}
	facts, err := r.Facts(ctx, neededFacts(c, true))
	if err != nil {
		return err
	}
	o.HasJoined = c.Flag(string(flag.DiscoveryFile)) == nil
	local, how, err := config.Join(file, o.JoinFlags, facts)
	r.Warn(how.Warnings...)
	if err != nil {
		return err
	}

	if err := r.Begin(ctx, &node.Node{Local: local}, how); err != nil {
		return err
	}
	if r.Finished() {
		return joinAgain(ctx, r, local)
	}
	var e *engine.Env
	keys := r.KeysOnceKnown()
	e = r.NewEnv(engine.Env{
		Local: local,
		Node: engine.Memoized(func(ctx context.Context) (*node.Node, error) {
			n, err := r.Discover(ctx, e)
			if err == nil {
				keys.SetCluster(ctx, n)
			}
			return n, err
		}),
		Admin: workflow.JoinAdmin(r.World(), local),
		Keys:  keys.Key,
	})
	if err := r.SimulateOfflineCluster(ctx, e); err != nil {
		return err
	}
	if err := r.Execute(ctx, e); err != nil || !r.IsWhole() {
		return err
	}
	n, err := e.Node(ctx)
	if err != nil {
		return err
	}
	localEtcd, _ := node.HasLocalEtcd(n)
	r.Emit(engine.Printed, joinedAs(n.Local, localEtcd && r.Runs(phaseindex.EtcdJoin)))
	r.RepeatWarnings()
	return nil
}

// joinAgain checks the node and shows the closing text of a join that has finished before. It
// changes nothing.
func joinAgain(ctx context.Context, r *run.Run, local node.Local) error {
	recorded, skipped := r.FinishedRun()
	e := r.NewEnv(engine.Env{Local: local, Node: engine.Resolved(&node.Node{Local: local})})
	if err := r.ExecutePhases(ctx, e, workflow.FinishedJoin(recorded, skipped),
		engine.Selection{}); err != nil {
		return err
	}
	r.Emit(engine.Printed,
		joinedAs(local, recorded(change.FileTarget(local.Paths.Manifest(manifest.Etcd)))))
	r.RepeatWarnings()
	return nil
}

// joinedAs is the closing text of a join, with or without an etcd member on this machine.
func joinedAs(l node.Local, etcd bool) string {
	if l.Role == node.Worker {
		return joined
	}
	member := ""
	if etcd {
		member = "\n  * etcd has gained a voting member."
	}
	return fmt.Sprintf(joinedControlPlane, member, l.Paths.Kubeconfig("admin.conf"),
		"$(id -u):$(id -g)")
}

// joined is the closing text of a worker's join. Scripts wait for its first sentence
// (test/parity/phrases).
const joined = `
This node has joined the cluster:
  * The kubelet has received its client certificate and uses it.

To list the nodes, run this on a control plane node:

  kubectl get nodes
`

// joinedControlPlane is that of a control plane: the etcd member, the path of admin.conf and the
// owner of its copy.
const joinedControlPlane = `
This node has joined the cluster as a control plane node:
  * The kubelet has received its client certificate and uses it.
  * The node has the labels and taints of a control plane node, and its components are healthy.%s

To administer the cluster from this machine as a regular user:
  mkdir -p $HOME/.kube
  sudo cp -i %s $HOME/.kube/config
  sudo chown %s $HOME/.kube/config

To see all nodes:
  kubectl get nodes
`
