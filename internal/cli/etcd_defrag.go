package cli

import (
	"github.com/spf13/cobra"

	"kubeadm/internal/engine"
	"kubeadm/internal/workflow"
)

func newEtcdDefragCommand(p *program) *cobra.Command {
	o := &etcdOptions{}
	c := &cobra.Command{
		Use:   "defrag",
		Short: "Free the unused space of etcd's databases",
		Long: `Return the unused space of etcd's databases to the file systems, one member at a time, the leader last, once another
member leads. A member answers nothing while it is defragmented, for some seconds per GiB: the command waits until all
members are healthy before it continues with the next one. A member with little to free is left alone.

If etcd has run out of space (alarm NOSPACE) and rejects writes, the command compacts the history of the keys,
defragments all members, disarms the alarm, and checks that the cluster accepts writes again. Members that do not answer
are skipped then, as long as the others have a quorum.`,
		Example: `  # show how much is in use
  kubeadm etcd members

  kubeadm etcd defrag`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return defragEtcd(p, c, o) },
	}
	o.values().bind(c.Flags())
	return withRunOutput(p, c)
}

func defragEtcd(p *program, c *cobra.Command, o *etcdOptions) (err error) {
	r, e, _, err := beginEtcdRun(p, c, o)
	if r != nil {
		defer closeRun(r, &err)
	}
	if err != nil {
		return err
	}
	if err := r.ExecutePhases(c.Context(), e, workflow.DefragmentEtcd, engine.Selection{}); err != nil {
		return err
	}
	if r.IsDryRun() {
		e.Say("the dry run is complete: nothing was changed")
	}
	return nil
}
