package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

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
	source, err := chooseSnapshotSource(e, here)
	if err != nil {
		return err
	}
	dir, err := openSnapshotDir(ctx, e.World, here, o.dir)
	if err != nil {
		return err
	}
	file, suffix := o.file, etcdsnapshot.SnapshotSuffix
	if o.withKeys {
		suffix = archiveSuffix(protection)
	}
	if file == "" {
		file, err = dir.prepare(ctx, e, suffix)
	} else {
		err = checkTarget(ctx, e.World, file, suffix)
	}
	if err != nil {
		return err
	}
	var saving change.Change = change.SaveSnapshot{Path: file, Via: source.via}
	if o.withKeys {
		keys, err := collectKeys(ctx, e, here)
		if err != nil {
			return err
		}
		saving = change.SaveArchive{Path: file, Via: source.via, Protection: protection, Manifest: etcdsnapshot.Manifest{
			Node: here.Name, Time: e.World.Now().UTC(), Kubeadm: e.Tool.String(), Files: keys}}
	}
	e.Say("saving a snapshot of etcd to %s", untrusted.Quote(file))
	if err := e.Do(ctx, saving); err != nil {
		return err
	}
	switch {
	case o.keep > 0 && source.doubt != "":
		e.Warn("no old snapshot is removed, because %s", source.doubt)
	case o.keep > 0:
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
	e.Say("the snapshot is complete and verified: %s", etcdcluster.FormatSize(saved.Size))
	return nil
}

// snapshotSource is where a snapshot comes from.
type snapshotSource struct {
	via   state.Etcd
	doubt string // why it may not have the state of the cluster; empty for none
}

// chooseSnapshotSource returns a healthy voter that is up to date, and not the leader if there is another
// one. Without a quorum it is the member that has applied most. It is never one with corrupt data.
func chooseSnapshotSource(e *engine.Env, here etcdNode) (s snapshotSource, err error) {
	health, alarms := here.health.SplitAlarms()
	corrupt := map[uint64]bool{}
	for _, a := range alarms {
		corrupt[a.Member] = corrupt[a.Member] || a.Kind == etcdcluster.Corrupt
	}
	switch {
	case corrupt[0], here.client.External && slices.Contains(slices.Collect(maps.Values(corrupt)), true):
		s.doubt = "etcd has raised the alarm CORRUPT, and this may be the member whose data are wrong"
	case health.CheckQuorum() != nil && !here.client.External:
		s.doubt = "etcd has no quorum, and the snapshot has the state that one member knows"
	}
	if s.doubt != "" {
		e.Warn("%s", s.doubt)
	}
	s.via = here.client.Etcd
	if here.client.External { // clients may reach the members at other addresses than they advertise
		return s, nil
	}
	voters := slices.DeleteFunc(slices.Clone(health.Members), func(m state.Member) bool {
		_, answers := health.Answered[m.ID]
		return m.Learner || !answers || corrupt[m.ID]
	})
	if len(voters) == 0 {
		return s, problem.New(errors.New("no voting etcd member answers whose data are not corrupt"),
			"check the members: kubeadm etcd members")
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
	best := slices.MinFunc(voters, func(a, b state.Member) int {
		if rank(a) < 2 || rank(b) < 2 {
			return cmp.Compare(rank(a), rank(b))
		}
		return cmp.Compare(health.Answered[b.ID].AppliedIndex, health.Answered[a.ID].AppliedIndex)
	})
	s.via.Endpoints = best.ClientURLs
	e.Say("using etcd member %s", etcdcluster.MemberName(best))
	return s, nil
}

// archiveSuffix is the end of the name of an archive.
func archiveSuffix(p etcdsnapshot.Protection) string {
	if p.IsEncrypted() {
		return etcdsnapshot.ArchiveSuffix + etcdsnapshot.EncryptedSuffix
	}
	return etcdsnapshot.ArchiveSuffix
}

// checkTarget is an error if the name of FILE says that it is of another kind than the one with that
// suffix, or if what it would replace is of another kind: that may be anything.
func checkTarget(ctx context.Context, r state.Reader, file, suffix string) error {
	kind := map[string]string{etcdsnapshot.SnapshotSuffix: "a snapshot of etcd", etcdsnapshot.ArchiveSuffix: "an unencrypted archive",
		etcdsnapshot.ArchiveSuffix + etcdsnapshot.EncryptedSuffix: "an encrypted archive"}[suffix]
	switch end := path.Ext(file); end {
	case etcdsnapshot.SnapshotSuffix, etcdsnapshot.ArchiveSuffix, etcdsnapshot.EncryptedSuffix:
		if end != path.Ext(suffix) {
			return problem.New(fmt.Errorf("%s would be %s, but its name ends in %s", untrusted.Quote(file), kind, end),
				fmt.Sprintf("end the name in %s; for an archive, set --%s", suffix, flag.WithKeys))
		}
	}
	info, err := r.Stat(ctx, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && info.Mode.IsDir():
		return problem.New(fmt.Errorf("%s is a directory", untrusted.Quote(file)),
			untrusted.CommandHint("let the command choose a name in it", "kubeadm etcd snapshot save --dir", file))
	case err == nil:
		err = checkKind(ctx, r, file, suffix)
	}
	if err != nil {
		return problem.New(fmt.Errorf("%s exists, and it is not %s that could be replaced: %w", untrusted.Quote(file), kind, err),
			"name another file, or remove this one")
	}
	return nil
}

// checkKind is an error unless an existing file is of the kind with that suffix. An encrypted one can only
// be told by its name.
func checkKind(ctx context.Context, r state.Reader, file, suffix string) error {
	if suffix == etcdsnapshot.SnapshotSuffix {
		_, err := r.ReadSnapshot(ctx, file)
		return err
	}
	f, err := r.OpenFile(ctx, file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = etcdsnapshot.OpenArchive(f, etcdsnapshot.Key{})
	switch isEncrypted := errors.Is(err, etcdsnapshot.ErrEncrypted); {
	case suffix == etcdsnapshot.ArchiveSuffix:
		return err
	case err == nil:
		return errors.New("it is not encrypted")
	case isEncrypted && strings.HasSuffix(file, suffix):
		return nil
	case isEncrypted:
		return fmt.Errorf("it is encrypted, and its name does not end in %s", suffix)
	}
	return err
}
