package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// snapshotOptions are the flags of "etcd snapshot save".
type snapshotOptions struct {
	etcdOptions
	file string // the argument; empty for a name in dir
	dir  string
	keep int
	archiveOptions
}

func newSnapshotSaveCommand(p *program) *cobra.Command {
	o := &snapshotOptions{}
	c := &cobra.Command{
		Use:   "save [FILE]",
		Short: "Save a snapshot of etcd",
		Long: `Save a snapshot of etcd to a file that only root can read. The snapshot holds the whole state of the cluster, Secrets
included. It does not hold the keys of the CAs, without which no other machine can become this cluster.

The snapshot comes from a member that is healthy and not the leader, if there is one. The file gets its name after the
snapshot has been verified and written to disk; an interrupted command leaves no file with that name. Without FILE, the
name has the node and the time. With --keep, the oldest snapshots that this node has saved to the same directory are
removed after that. The command never removes other files.

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
				o.file = args[0]
			}
			return saveSnapshot(p, c, o)
		},
	}
	targets := o.etcdOptions.values()
	targets[flag.Dir], targets[flag.Keep] = &o.dir, &o.keep
	maps.Copy(targets, o.archiveOptions.values())
	targets.bind(c.Flags())
	return withRunOutput(p, c)
}

// check refuses flags and arguments that do not fit together.
func (o *snapshotOptions) check(c *cobra.Command) error {
	switch {
	case c.Flags().Changed(string(flag.Keep)) && o.keep < 1:
		return problem.New(fmt.Errorf("--%s %d is not a number of snapshots", flag.Keep, o.keep),
			"set it to at least 1, or leave it out to keep all snapshots")
	case o.file != "" && o.dir != "":
		return problem.New(fmt.Errorf("both FILE and --%s say where to save the snapshot", flag.Dir),
			fmt.Sprintf("leave out --%s, or FILE for a name that the command chooses", flag.Dir))
	case o.file != "" && o.keep > 0:
		return problem.New(fmt.Errorf("--%s counts snapshots whose names the command chooses, but FILE is set", flag.Keep),
			fmt.Sprintf("leave out FILE and set --%s, or leave out --%s", flag.Dir, flag.Keep))
	}
	return o.archiveOptions.check()
}

func saveSnapshot(p *program, c *cobra.Command, o *snapshotOptions) (err error) {
	ctx := c.Context()
	if err := o.check(c); err != nil {
		return err
	}
	protection, err := o.protection(ctx, p)
	if err != nil {
		return err
	}
	r, e, here, err := beginEtcdRun(p, c, &o.etcdOptions)
	if r != nil {
		defer closeRun(r, &err)
	}
	if err != nil {
		return err
	}
	via, err := chooseSnapshotMember(e, here)
	if err != nil {
		return err
	}
	dir := snapshotDir{path: o.dir, node: here.Name}
	if dir.path == "" {
		dir.path = here.Paths.Snapshots()
	}
	file := o.file
	suffix := etcdsnapshot.SnapshotSuffix
	if o.withKeys {
		suffix = archiveSuffix(protection)
	}
	if file == "" {
		if file, err = dir.prepare(ctx, e, suffix); err != nil {
			return err
		}
	} else if err := checkReplacedSnapshot(ctx, e.World, file); err != nil {
		return err
	}
	e.Say("saving a snapshot of etcd to %s", untrusted.Quote(file))
	snapshot := file
	if o.withKeys {
		snapshot = snapshotBeside(file)
	}
	if err := e.Do(ctx, change.SaveSnapshot{Path: snapshot, Via: via, NotBefore: e.World.Now()}); err != nil {
		return err
	}
	if o.withKeys {
		if err := saveArchive(ctx, e, here, change.SaveArchive{Path: file, Snapshot: snapshot,
			Protection: protection}); err != nil {
			return err
		}
	}
	if o.keep > 0 {
		if err := dir.prune(ctx, e, o.keep); err != nil {
			return problem.During("removing old snapshots", err, "the new snapshot is "+untrusted.Quote(file))
		}
	}
	if r.IsDryRun() {
		e.Say("the dry run is complete: nothing was changed")
		return nil
	}
	saved, err := e.World.Stat(ctx, file)
	if err != nil {
		return err
	}
	e.Say("the snapshot is complete and verified: %s", formatSize(saved.Size))
	return nil
}

// chooseSnapshotMember returns the member to save a snapshot of as the first endpoint: a healthy voter
// that is up to date, and not the leader if there is another one. Without a quorum it is the member
// that has applied most.
func chooseSnapshotMember(e *engine.Env, here etcdNode) (state.Etcd, error) {
	via := here.client.Etcd
	health, _ := here.health.SplitAlarms()
	voters := slices.DeleteFunc(slices.Clone(health.Members), func(m state.Member) bool {
		_, answers := health.Answered[m.ID]
		return m.Learner || !answers
	})
	if len(voters) == 0 {
		return via, problem.New(errors.New("no voting etcd member answers"),
			"check the members: kubeadm etcd members")
	}
	if health.CheckQuorum() != nil {
		e.Warn("the snapshot has the state that one member knows, because etcd has no quorum")
	}
	rank := func(m state.Member) int {
		switch {
		case health.Unhealthy[m.ID] != nil || health.CheckAppliedIndex(m.ID) != nil:
			return 2
		case health.Answered[m.ID].Leader == m.ID:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(voters, func(a, b state.Member) int {
		if byRank := rank(a) - rank(b); byRank != 0 || rank(a) < 2 {
			return byRank
		}
		return int(health.Answered[b.ID].AppliedIndex - health.Answered[a.ID].AppliedIndex)
	})
	if here.client.External { // clients may reach the members at other addresses than they advertise
		return via, nil
	}
	via.Endpoints = nil
	for _, m := range voters {
		via.Endpoints = append(via.Endpoints, m.ClientURLs...)
	}
	e.Say("using etcd member %s", etcdcluster.MemberName(voters[0]))
	return via, nil
}

// checkReplacedSnapshot is an error if a file exists that is not a snapshot: it may be anything.
func checkReplacedSnapshot(ctx context.Context, r state.Reader, file string) error {
	exists, err := state.Exists(ctx, r, file)
	if err != nil || !exists {
		return err
	}
	if head, err := readHead(ctx, r, file); err == nil && etcdsnapshot.IsArchive(head) {
		return nil
	}
	if _, err := r.ReadSnapshot(ctx, file); err != nil {
		return problem.New(fmt.Errorf("%s exists, and it is not a snapshot of etcd that could be replaced: %w",
			untrusted.Quote(file), err), "name another file, or remove this one")
	}
	return nil
}
