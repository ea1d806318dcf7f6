// Package rebuild makes this machine the first control plane node of a cluster that exists only as a
// backup: it checks the backup, restores the data of etcd and the files that all control plane nodes
// share, and finds what is left of the old control plane. docs/decisions/0073 has the reasons.
package rebuild

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// restoredFile is a file that the backup has for this machine.
type restoredFile struct {
	path     string
	data     []byte
	isSecret bool
}

// filesOf are the files of the backup that belong on this machine. Which they are and where they belong
// is decided here, not by the archive.
func filesOf(b *etcdsnapshot.Backup, n *node.Node) (files []restoredFile) {
	for _, name := range pki.SharedFiles(true) {
		if data := b.File(etcdsnapshot.PKIPrefix + name); data != nil {
			files = append(files, restoredFile{n.Paths.Certificate(name), data,
				strings.HasSuffix(name, ".key")})
		}
	}
	if file := n.Cluster.Backup.Encryption; file != "" {
		files = append(files, restoredFile{file, b.File(etcdsnapshot.EncryptionName), true})
	}
	return files
}

// Restore restores the data of etcd and the files. Data that are in place are never replaced: etcd may
// have started with them in an interrupted run.
func Restore(b *etcdsnapshot.Backup) engine.Phase {
	return engine.Phase{Name: "restore", Short: "Restore data and keys from the backup", Hidden: true, Run: func(ctx context.Context, e *engine.Env) error {
		n, err := e.Node(ctx)
		if err != nil {
			return err
		}
		if err := restoreData(ctx, e, b, n); err != nil {
			return err
		}
		return writeFiles(ctx, e, filesOf(b, n))
	}}
}

func restoreData(ctx context.Context, e *engine.Env, b *etcdsnapshot.Backup, n *node.Node) error {
	dir, data := n.RestoredEtcd(), path.Join(n.Cluster.Etcd.DataDir, "member")
	isRestored, err := state.HasEntry(ctx, e.World, data)
	switch {
	case err != nil:
		return err
	case isRestored:
		e.Say("using the data of etcd that were restored before")
	default:
		token, err := e.Once(ctx, "etcd-cluster-token", func() (string, error) {
			random := make([]byte, 8)
			_, err := io.ReadFull(e.Rand("etcd-cluster-token"), random)
			return fmt.Sprintf("%x", random), err
		})
		if err != nil {
			return err
		}
		e.Say("restoring the data of etcd from %q", b.Path)
		if err := e.Do(ctx, change.MakeDir{Path: n.Cluster.Etcd.DataDir, Mode: 0o700},
			change.RestoreSnapshot{Snapshot: b.Path, Key: b.Key, Dir: dir, Name: n.Name,
				PeerURL: n.PeerURL(), Token: token,
				Revision: b.Manifest.Snapshot.Revision + change.RevisionBump},
			change.Rename{From: path.Join(dir, "member"), To: data}); err != nil {
			return err
		}
	}
	return e.Do(ctx, change.Remove{Path: dir, OnlyEmpty: true})
}

func writeFiles(ctx context.Context, e *engine.Env, files []restoredFile) error {
	e.Say("writing the certificate authorities and keys of the backup to %q", e.Local.Paths.Certificates)
	for _, keysFirst := range []bool{true, false} { // a CA without its key would be an external one
		for _, f := range files {
			if f.isSecret != keysFirst {
				continue
			}
			mode := fs.FileMode(0o644)
			if f.isSecret {
				mode = 0o600
			}
			if err := e.Do(ctx, change.WriteFile{Path: f.path, Data: f.data, Mode: mode,
				Secret: f.isSecret}); err != nil {
				return err
			}
		}
	}
	return nil
}
