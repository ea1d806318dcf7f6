package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcddata"
	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/workflow"
)

func newEtcdRestoreCommand(p *program) *cobra.Command {
	o := &etcdDataOptions{}
	c := &cobra.Command{
		Use:   "restore {FILE | --undo}",
		Short: "Restore the cluster's state from an etcd snapshot",
		Long: `Restore the state of the whole cluster from a snapshot of etcd. Run the command on one control plane node, then
"kubeadm etcd rejoin" on each of the others.

Before anything changes, the command checks the file, this node and the other members, says which state is lost, and
asks for confirmation. It then removes the other members from etcd, so that none of them can continue with the present
data, stops etcd, keeps the present data, and starts etcd with those of the snapshot. If etcd does not start with them,
the present data are put back.

The restored data have higher revisions than the present ones: all clients notice that their state is outdated, and
read it again.

If etcd has no quorum, no member can be removed: the command then continues only if no other member and no other API
server answers, and if each of them is named with --lost-member.

To resume an interrupted command, re-run it. If members that were named with --lost-member have a quorum by then, it
refuses, unless etcd has run with the restored data. With another file, the command supersedes an unfinished one. Once
clients may have used the restored data, the present data are put back only with --undo.`,
		Example: `  # check everything and print what would change
  kubeadm etcd restore /var/backups/etcd.db --dry-run

  kubeadm etcd restore /var/backups/etcd.db

  # two of three control plane nodes are permanently lost
  kubeadm etcd restore /var/backups/etcd.db --lost-member=cp2,cp3`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.Undo && len(args) > 0:
				return problem.New(fmt.Errorf("--%s puts the previous data back, so the file %q has no effect", flag.Undo,
					args[0]), "leave out the file")
			case o.Undo || len(args) == 1:
				return nil
			}
			return problem.New(errors.New("the file of one snapshot is required"),
				"list the snapshots: kubeadm etcd snapshot list")
		},
		RunE: func(c *cobra.Command, args []string) error {
			if o.Undo {
				return replaceEtcdData(p, c, o, workflow.RestoreEtcd)
			}
			file, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			o.Snapshot = file
			return replaceEtcdData(p, c, o, workflow.RestoreEtcd)
		},
	}
	o.bind(c, flag.LostMember, flag.Undo)
	return withRunOutput(p, c)
}

func newEtcdRejoinCommand(p *program) *cobra.Command {
	o := &etcdDataOptions{etcdOptions: etcdOptions{anyServer: true}}
	c := &cobra.Command{
		Use:   "rejoin",
		Short: "Replace the data of this node's etcd member by those of the cluster",
		Long: `Remove this node's etcd member from the cluster, keep its data aside, and add it again as a learner, which gets the
data of the cluster. Once it has caught up, it is promoted to a voting member. Certificates, manifests and the Node
stay.

Run the command on the other control plane nodes after "kubeadm etcd restore" or "kubeadm etcd recover", and on a node
whose etcd data are lost or damaged. A healthy member is left as it is. The other members need a quorum. To resume an
interrupted command, re-run it.`,
		Example: `  # print what would change
  kubeadm etcd rejoin --dry-run

  kubeadm etcd rejoin`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return replaceEtcdData(p, c, o, workflow.RejoinEtcd)
		},
	}
	o.bind(c)
	return withRunOutput(p, c)
}

func newEtcdRecoverCommand(p *program) *cobra.Command {
	o := &etcdDataOptions{}
	c := &cobra.Command{
		Use:   "recover",
		Short: "Continue with this node's etcd member after the quorum was permanently lost",
		Long: `Continue with the etcd member of this node alone, after so many machines were lost that etcd can never have a quorum
again. Unlike "kubeadm etcd restore", the command keeps all data that this node's member has. If several machines are
left, run it on the one with the newest data; while another member answers, the error says which that is.

Two clusters with the same nodes must never run side by side. So the command waits to see if a quorum comes back, and
refuses while any other member or another control plane node's API server answers. All other members must be named with
--lost-member. Before it changes the data, it saves a snapshot, unless etcd serves no clients, as after a start without a
quorum. To resume an interrupted command, re-run it.

Then run "kubeadm etcd rejoin" on the control plane nodes whose machines are left, and join new ones in place of those
that are lost.`,
		Example: `  # cp2 and cp3 are permanently lost; print what would change
  kubeadm etcd recover --lost-member=cp2,cp3 --dry-run

  kubeadm etcd recover --lost-member=cp2,cp3`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return replaceEtcdData(p, c, o, workflow.RecoverEtcd)
		},
	}
	o.bind(c, flag.LostMember)
	return withRunOutput(p, c)
}

// etcdDataOptions are the flags of the commands that replace the data of etcd.
type etcdDataOptions struct {
	etcdOptions
	etcddata.Options
	yes bool
}

func (o *etcdDataOptions) bind(c *cobra.Command, more ...flag.Name) {
	targets := o.values()
	targets[flag.Yes] = &o.yes
	targets[flag.LostMember] = &o.Lost
	targets[flag.Undo] = &o.Undo
	names := append(more, flag.DryRun, flag.Kubeconfig, flag.Yes)
	targets.bind(c.Flags(), names...)
}

// replaceEtcdData runs a command that replaces the data of this node's etcd member. The API server of
// this node, and those of all others, may be down.
func replaceEtcdData(p *program, c *cobra.Command, o *etcdDataOptions,
	workflowOf func(etcddata.Options) []engine.Phase) (err error) {
	ctx := c.Context()
	wanted := o.Options
	r, e, err := beginNodeRun(p, c, &o.etcdOptions)
	if r != nil {
		defer closeRun(r, &err)
	}
	if err != nil {
		return err
	}
	if !o.yes && !r.IsDryRun() {
		wanted.Ask = func(ctx context.Context, what string) error {
			return confirm(ctx, p, r, what, flag.Yes)
		}
	}
	if err := r.ExecutePhases(ctx, e, workflowOf(wanted), engine.Selection{}); err != nil {
		return err
	}
	if r.IsDryRun() {
		r.Emit(engine.Info, "the dry run is complete: nothing was changed")
	}
	return nil
}
