package cli

import (
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/snapshots"
	"kubeadm/internal/workflow"
)

// snapshotOptions are the flags of "etcd snapshot save".
type snapshotOptions struct {
	etcdOptions
	snapshots.Options
	archiveOptions
}

func newSnapshotSaveCommand(p *program) *cobra.Command {
	o := &snapshotOptions{etcdOptions: etcdOptions{startsOver: true}}
	c := &cobra.Command{
		Use:   "save [FILE]",
		Short: "Save a snapshot of etcd",
		Long: `Save a snapshot of etcd to a file that only root can read. The snapshot holds the whole state of the cluster, Secrets
included. It does not hold the keys of the CAs, without which no other machine can become this cluster.

The snapshot comes from a member that is healthy and not the leader, if there is one; with an external etcd, from the
first endpoint of the API server that answers. The file gets its name after the snapshot has been verified and written
to disk; an interrupted command leaves no file with that name. Without FILE, the name has the cluster, the node and the
time. With --keep, the oldest snapshots with such a name of this node are removed from the directory after that; name
FILE for a snapshot to keep. The command replaces FILE only if it is of the same kind, and never removes other files.

With --with-keys, the file is an archive from which a cluster can be rebuilt on other machines: the snapshot, the CAs
and the service account key, the file of the API server's --encryption-provider-config, and the stored configurations.
It holds every secret of the cluster and is encrypted with age (https://age-encryption.org), for the recipients of
--recipients-file or with a passphrase, unless --unencrypted is set.

A snapshot on the node's own disk is lost with that disk: copy it to another machine.`,
		Example: `  kubeadm etcd snapshot save

  # a certain file
  kubeadm etcd snapshot save /backup/before-migration.db

  # once a day: keep two weeks
  kubeadm etcd snapshot save --keep 14

  # everything that a cluster on other machines needs
  kubeadm etcd snapshot save --with-keys --recipients-file backup-recipients.txt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) <= 1 {
				return nil
			}
			return problem.New(fmt.Errorf("one file is allowed, but got %d", len(args)),
				"usage: kubeadm etcd snapshot save [FILE]")
		},
		ValidArgsFunction: offerFiles(cobra.ShellCompDirectiveDefault),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.File = args[0]
			}
			return saveSnapshot(p, c, o)
		},
	}
	targets := o.etcdOptions.values()
	targets[flag.Dir], targets[flag.Keep], targets[flag.WithKeys] = &o.Dir, &o.Keep, &o.WithKeys
	maps.Copy(targets, o.archiveOptions.values())
	targets.bindOf(flag.SnapshotSave, c.Flags())
	return withRunOutput(p, c)
}

// check refuses flags and arguments that do not fit together.
func (o *snapshotOptions) check(c *cobra.Command) error {
	switch {
	case c.Flags().Changed(string(flag.Keep)) && o.Keep < 1:
		return problem.New(fmt.Errorf("--%s %d is not a number of snapshots", flag.Keep, o.Keep),
			"set it to at least 1, or leave it out to keep all snapshots")
	case o.File != "" && o.Dir != "":
		return problem.New(fmt.Errorf("both FILE and --%s say where to save the snapshot", flag.Dir),
			fmt.Sprintf("leave out --%s, or FILE for a name that the command chooses", flag.Dir))
	case o.File != "" && o.Keep > 0:
		return problem.New(fmt.Errorf("--%s counts snapshots whose names the command chooses, but FILE is set", flag.Keep),
			fmt.Sprintf("leave out FILE and set --%s, or leave out --%s", flag.Dir, flag.Keep))
	}
	return o.archiveOptions.check(o.WithKeys)
}

func saveSnapshot(p *program, c *cobra.Command, o *snapshotOptions) (err error) {
	ctx := c.Context()
	if err := o.check(c); err != nil {
		return err
	}
	if o.WithKeys {
		if o.Protection, err = o.protection(ctx, p); err != nil {
			return err
		}
	}
	r, e, err := beginNodeRun(p, c, &o.etcdOptions)
	if r != nil {
		defer closeRun(r, &err)
	}
	if err != nil {
		return err
	}
	var file string
	save := workflow.SaveEtcdSnapshot(o.Options, func(saved string) { file = saved })
	err = r.ExecutePhases(ctx, e, save, engine.Selection{})
	if failed, ok := errors.AsType[*engine.PhaseError](err); ok {
		return failed.Err // it is the only phase
	}
	if err != nil {
		return err
	}
	e = e.Named("etcd")
	if r.IsDryRun() {
		e.Say("the dry run is complete: nothing was changed")
		return nil
	}
	saved, err := e.World.Stat(ctx, file)
	if err != nil {
		return err
	}
	e.Say("the snapshot is complete and verified: %s", etcdcluster.FormatSize(saved.Size))
	return nil
}
