package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/etcdcluster"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/snapshots"
	"kubeadm/internal/untrusted"
)

func newEtcdSnapshotCommand(p *program) *cobra.Command {
	return newGroup("snapshot", "Manage snapshots of etcd", newSnapshotListCommand(p), newSnapshotSaveCommand(p),
		newSnapshotStatusCommand(p))
}

func newSnapshotStatusCommand(p *program) *cobra.Command {
	out, keys := newOutput(), &keyOptions{}
	c := &cobra.Command{
		Use:   "status FILE",
		Short: "Verify a snapshot and show what it contains",
		Long: `Verify that a snapshot of etcd is complete and unchanged, and show what it contains: the versions of etcd and
Kubernetes, the revision, the number of keys, the members and the CA of the cluster, and the keys with which values are
encrypted at rest. The command runs on any machine and needs no cluster.

Of an archive that "kubeadm etcd snapshot save --with-keys" has made, it also shows which files are in it. The files and
the snapshot are verified against the manifest of the archive, and nothing is written; what is shown of the snapshot is
what the manifest says. With --identity-file or --passphrase-file, the file must be encrypted.`,
		Example: `  kubeadm etcd snapshot status etcd-1a2b3c4d-cp1-20261125T020000Z.db

  # machine-readable
  kubeadm etcd snapshot status etcd-1a2b3c4d-cp1-20261125T020000Z.db --output json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return problem.New(errors.New("the path of one snapshot is required"),
				"usage: kubeadm etcd snapshot status FILE")
		},
		ValidArgsFunction: offerFiles(cobra.ShellCompDirectiveDefault),
		RunE: func(c *cobra.Command, args []string) error {
			return showSnapshot(p, c, args[0], statusOptions{&out, keys})
		},
	}
	targetsOf(keys).bindOf(flag.SnapshotStatus, c.Flags())
	out.bind(c.Flags())
	return c
}

// statusOptions are the flags of "etcd snapshot status".
type statusOptions struct {
	out  *output
	keys *keyOptions
}

func newSnapshotListCommand(p *program) *cobra.Command {
	dir, out := node.DefaultPaths().Snapshots(), newOutput()
	c := &cobra.Command{
		Use:   "list",
		Short: "List the snapshots on this machine",
		Long: `List the snapshots in a directory that "kubeadm etcd snapshot save" has named. The command does not verify them;
"kubeadm etcd snapshot status" does.`,
		Example: "  kubeadm etcd snapshot list",
		Args:    refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return listSnapshots(p, c, dir, &out)
		},
	}
	flagTargets{flag.Dir: &dir}.bind(c.Flags())
	out.bind(c.Flags())
	return c
}

// snapshotList is the result as an object.
type snapshotList struct {
	metav1.TypeMeta `json:",inline"`
	Snapshots       []listedSnapshot `json:"snapshots"`
}

type listedSnapshot struct {
	File    string      `json:"file"`
	Cluster string      `json:"cluster"` // the first digits of the hash of its CA
	Node    string      `json:"node"`
	Time    metav1.Time `json:"time"`
	Size    int64       `json:"size"`
}

func listSnapshots(p *program, c *cobra.Command, dir string, out *output) error {
	ctx := c.Context()
	encode, err := out.encoder(ctx, p.World())
	if err != nil {
		return err
	}
	files, err := snapshots.List(ctx, p.World(), dir)
	if err != nil {
		return err
	}
	list := snapshotList{TypeMeta: outputMeta("EtcdSnapshotList"), Snapshots: []listedSnapshot{}}
	for _, f := range files {
		list.Snapshots = append(list.Snapshots, listedSnapshot{f.Path, f.Cluster, untrusted.Line(f.Node),
			metav1.Time{Time: f.Time}, f.Size})
	}
	if encode != nil {
		return encode(p.Out, []any{list})
	}
	if len(list.Snapshots) == 0 {
		_, err := fmt.Fprintf(p.Out, "There is no snapshot in %s.\n", untrusted.Line(dir))
		return err
	}
	w := report.NewTable(p.Out, 4, "MADE", "CLUSTER", "NODE", "SIZE", "FILE")
	for _, s := range list.Snapshots {
		w.Row(s.Time.UTC().Format(snapshotTimeForm), s.Cluster, s.Node, etcdcluster.FormatSize(s.Size), s.File)
	}
	return w.Flush()
}

// snapshotTimeForm is how the time of a snapshot is shown.
const snapshotTimeForm = "2006-01-02 15:04:05 MST"

// snapshotStatus is the result as an object.
type snapshotStatus struct {
	metav1.TypeMeta `json:",inline"`
	File            string       `json:"file"`
	Node            string       `json:"node,omitempty"` // that made it, by the name of the file
	Time            *metav1.Time `json:"time,omitempty"` // when it was made, by the name of the file; or last changed
	// DescribedBy is "database" if that was read, or "manifest" if this is what an archive says of it.
	DescribedBy string `json:"describedBy"`
	etcdsnapshot.Info
	// Of an archive.
	Encrypted bool                        `json:"encrypted,omitempty"`
	Kubeadm   string                      `json:"kubeadm,omitempty"` // version that made it
	Files     []etcdsnapshot.ArchivedFile `json:"files,omitempty"`
}

func showSnapshot(p *program, c *cobra.Command, file string, o statusOptions) (err error) {
	ctx := c.Context()
	encode, err := o.out.encoder(ctx, p.World())
	if err != nil {
		return err
	}
	status, err := readSnapshot(ctx, p, file, o.keys)
	if err != nil {
		return err
	}
	if encode != nil {
		return encode(p.Out, []any{status})
	}
	return status.write(p.Out)
}

// readSnapshot verifies and describes a snapshot.
func readSnapshot(ctx context.Context, p *program, file string, o *keyOptions) (snapshotStatus, error) {
	r := p.World()
	status := snapshotStatus{TypeMeta: outputMeta("EtcdSnapshotStatus"), File: file}
	op := "reading the snapshot " + untrusted.Quote(file)
	stat, err := r.Stat(ctx, file)
	if err != nil {
		return status, problem.During(op, err, "list the snapshots of this node: kubeadm etcd snapshot list")
	}
	status.Time = &metav1.Time{Time: stat.ModTime.UTC()}
	if name, ok := etcdsnapshot.ParseFileName(path.Base(file)); ok {
		status.Node, status.Time = untrusted.Line(name.Node), &metav1.Time{Time: name.Time}
	}
	head, err := readHead(ctx, r, file)
	status.Encrypted = etcdsnapshot.IsEncrypted(head)
	switch {
	case err != nil:
	case !status.Encrypted && o.name() != "":
		err = o.notEncryptedError()
	case etcdsnapshot.IsArchive(head):
		err = readArchive(ctx, p, &status, o)
	default:
		status.DescribedBy = "database"
		status.Info, err = r.ReadSnapshot(ctx, file)
	}
	if err != nil {
		hint := "use another snapshot, or copy this one again from where it was saved"
		if status.Node == "" {
			hint = "check that the file is a snapshot of etcd: the database with its checksum, not a copy of member/snap/db"
		}
		return status, problem.During(op, err, hint)
	}
	return status, nil
}

// write prints one fact per line.
func (s snapshotStatus) write(out io.Writer) error {
	w := report.NewTable(out, 20, "FILE", s.File)
	made := s.Time.UTC().Format(snapshotTimeForm)
	if s.Node != "" {
		made += ", by node " + s.Node
	}
	w.Row("MADE", made)
	w.Row("SIZE", etcdcluster.FormatSize(s.Info.Size))
	w.Row("CHECKSUM", "verified, sha256 "+s.SHA256)
	if s.DescribedBy == "manifest" {
		w.Row("DESCRIBED BY", "the manifest of the archive; the database itself was not read")
	}
	w.Row("REVISION", fmt.Sprint(s.Revision))
	w.Row("KEYS", fmt.Sprint(s.Keys))
	w.Row("ETCD", orUnknown(s.EtcdVersion))
	w.Row("STORAGE VERSION", orUnknown(s.StorageVersion))
	w.Row("MEMBERS", orUnknown(strings.Join(s.Members, ", ")))
	w.Row("KUBERNETES", orUnknown(s.KubernetesVersion))
	w.Row("CLUSTER CA", orUnknown(strings.Join(s.CAHashes, ", ")))
	encryption := "none"
	if len(s.Encryption) > 0 {
		encryption = "with the keys " + strings.Join(s.Encryption, ", ") +
			"; a restore needs the file of --encryption-provider-config"
	}
	w.Row("ENCRYPTION AT REST", encryption)
	if len(s.Files) > 0 {
		how := "in clear text"
		if s.Encrypted {
			how = "encrypted"
		}
		w.Row("ARCHIVE", how+", made by kubeadm "+s.Kubeadm)
		w.Section("FILE", "BYTES", "PATH ON THE NODE")
		for _, f := range s.Files {
			w.Row(f.Name, fmt.Sprint(f.Size), orUnknown(f.Path))
		}
	}
	return w.Flush()
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
