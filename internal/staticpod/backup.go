package staticpod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/state"
)

// BackupKind is what a backup directory holds; the name of the directory begins with it.
type BackupKind string

// The kinds of backups. Their names are those of upstream's kubeadm.
const (
	ManifestBackup      BackupKind = "kubeadm-backup-manifests-"
	EtcdBackup          BackupKind = "kubeadm-backup-etcd-"
	KubeletConfigBackup BackupKind = "kubeadm-kubelet-config-"
	KubeletFlagsBackup  BackupKind = "kubeadm-kubelet-env-"
)

// How many backup directories are kept.
const (
	mostBackups   = 10 // of manifests
	mostSnapshots = 3  // of etcd, which may be large
)

// snapshotFile is the name of a snapshot in its backup directory.
const snapshotFile = "snapshot.db"

// backupTime is the form of the time in the name of a backup directory.
const backupTime = "2006-01-02-15-04-05"

var backupName = regexp.MustCompile(`^\d{4}(-\d\d){5}$`)

// BackupDir returns the path of a new backup directory below tmp, named after the present time. It
// creates nothing.
func BackupDir(ctx context.Context, e *engine.Env, tmp string, kind BackupKind) (string, error) {
	for at := e.World.Now(); ; at = at.Add(time.Second) {
		dir := path.Join(tmp, string(kind)+at.Format(backupTime))
		if there, err := state.Exists(ctx, e.World, dir); err != nil || !there {
			return dir, err
		}
	}
}

// SaveEtcdSnapshot saves a snapshot of the member that via reaches in a backup directory, and
// returns the path of the file. Of earlier snapshots the newest ones are kept.
func SaveEtcdSnapshot(ctx context.Context, e *engine.Env, n *node.Node,
	via state.Etcd) (string, error) {
	dir, err := BackupDir(ctx, e, n.Paths.Tmp(), EtcdBackup)
	if err != nil {
		return "", err
	}
	// The space of the oldest one may be needed.
	if err := PruneBackups(ctx, e, n.Paths.Tmp(), EtcdBackup, mostSnapshots-1); err != nil {
		return "", err
	}
	file := path.Join(dir, snapshotFile)
	e.Say("saving a snapshot of etcd to %q", file)
	return file, e.Do(ctx,
		change.MakeDir{Path: dir, Mode: 0o700},
		change.SaveSnapshot{Path: file, Via: via, NotBefore: e.World.Now()})
}

// listBackups returns the backup directories of a kind below tmp, oldest first.
func listBackups(ctx context.Context, e *engine.Env, tmp string, kind BackupKind) ([]string, error) {
	all, err := e.World.ReadDir(ctx, tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for old backups: %w", err)
	}
	var dirs []string
	for _, f := range all { // by name, and so by time
		at, ok := strings.CutPrefix(path.Base(f.Path), string(kind))
		if ok && f.Mode.IsDir() && backupName.MatchString(at) {
			dirs = append(dirs, f.Path)
		}
	}
	return dirs, nil
}

// PruneBackups removes the oldest backup directories of a kind below tmp, so that at most as many
// as said are left.
func PruneBackups(ctx context.Context, e *engine.Env, tmp string, kind BackupKind, most int) error {
	dirs, err := listBackups(ctx, e, tmp, kind)
	if err != nil {
		return err
	}
	for len(dirs) > most {
		if err := e.Do(ctx, change.Remove{Path: dirs[0]}); err != nil {
			return err
		}
		dirs = dirs[1:]
	}
	return nil
}
