package cli

import (
	"context"

	"github.com/spf13/cobra"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/existing"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/run"
)

func newEtcdCommand(p *program) *cobra.Command {
	c := newGroup("etcd", "Manage the etcd cluster", newEtcdDefragCommand(p), newEtcdMembersCommand(p),
		newEtcdRecoverCommand(p), newEtcdRejoinCommand(p), newEtcdRestoreCommand(p), newEtcdSnapshotCommand(p))
	c.Long = `Manage the etcd cluster that stores the state of the Kubernetes cluster. Run the commands on a control plane node.

With an external etcd, the commands use the client certificate of the API server.`
	return c
}

// etcdOptions are the flags of the commands that access etcd.
type etcdOptions struct {
	kubeconfig string
	dryRun     bool

	// Of the command, not flags:
	anyServer  bool // the API servers of other nodes are asked: that of this node may be down
	startsOver bool // a re-run resumes nothing
}

// etcdNode is a control plane node, and the etcd cluster that its API server uses.
type etcdNode struct {
	existing.Machine
	client etcdcluster.Client
	health etcdcluster.Health
}

// listControlPlanes is the hint on a machine that is not a control plane node.
const listControlPlanes = "list them: kubectl get nodes -l node-role.kubernetes.io/control-plane"

// openEtcd reads what this machine is and checks etcd's members.
func openEtcd(ctx context.Context, e *engine.Env, o existing.Options) (etcdNode, error) {
	o.OnlyControlPlane = listControlPlanes
	here, err := existing.Open(ctx, e, o)
	if err != nil {
		return etcdNode{}, err
	}
	client, health, err := here.Etcd(ctx, e)
	return etcdNode{here, client, health}, err
}

// beginEtcdRun opens the run of a command that changes etcd or this node, and chooses its world.
func beginEtcdRun(p *program, c *cobra.Command, o *etcdOptions) (*run.Run, *engine.Env, etcdNode, error) {
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "etcd", Repeatable: true})
	if err != nil {
		return nil, nil, etcdNode{}, err
	}
	if err := checkRoot(ctx, p.World()); err != nil {
		return r, nil, etcdNode{}, err
	}
	here, err := openEtcd(ctx, envOfNode(ctx, p, r, config.NewLocal(), "etcd"), existing.Options{
		Kubeconfig: named(c, o.kubeconfig), RemoveTemporary: !o.dryRun})
	if err != nil {
		return r, nil, here, err
	}
	if err := r.Begin(ctx, &node.Node{Local: here.Local}, config.RunOptions{DryRun: o.dryRun}); err != nil {
		return r, nil, here, err
	}
	return r, r.NewEnv(engine.Env{Local: here.Local, Admin: engine.As(here.As)}).Named("etcd"), here, nil
}

// beginNodeRun opens the run of a command that reads etcd in its phases, which may be down until then, and
// chooses its world.
func beginNodeRun(p *program, c *cobra.Command, o *etcdOptions) (*run.Run, *engine.Env, error) {
	ctx := c.Context()
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "etcd", Repeatable: true, StartsOver: o.startsOver})
	if err != nil {
		return nil, nil, err
	}
	if err := checkRoot(ctx, p.World()); err != nil {
		return r, nil, err
	}
	here, err := existing.Open(ctx, envOfNode(ctx, p, r, config.NewLocal(), "etcd"), existing.Options{
		Kubeconfig: named(c, o.kubeconfig), OnlyControlPlane: listControlPlanes, RemoveTemporary: !o.dryRun})
	if err != nil {
		return r, nil, err
	}
	if o.anyServer {
		here.As.Server = ""
	}
	n := &node.Node{Local: here.Local}
	if err := r.Begin(ctx, n, config.RunOptions{DryRun: o.dryRun}); err != nil {
		return r, nil, err
	}
	return r, r.NewEnv(engine.Env{Local: here.Local, Node: engine.Resolved(n), Admin: engine.As(here.As)}), nil
}

func (o *etcdOptions) values() flagTargets {
	return flagTargets{flag.Kubeconfig: &o.kubeconfig, flag.DryRun: &o.dryRun}
}
