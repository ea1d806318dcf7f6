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
	"kubeadm/internal/state"
)

// BackupKind is the kind of a backup, and the prefix of the names of its directories.
type BackupKind string

// The kinds of backups. Upstream's kubeadm uses the same names.
const (
	ManifestBackup      BackupKind = "kubeadm-backup-manifests-"
	EtcdBackup          BackupKind = "kubeadm-backup-etcd-"
	KubeletConfigBackup BackupKind = "kubeadm-kubelet-config-"
	KubeletFlagsBackup  BackupKind = "kubeadm-kubelet-env-"
)

// Numbers of backup directories that are kept.
const (
	maxManifestBackups = 10
	maxEtcdBackups     = 3 // snapshots may be large
)

// backupTimeLayout is the layout of the time in the name of a backup directory.
const backupTimeLayout = "2006-01-02-15-04-05"

var backupTimePattern = regexp.MustCompile(`^\d{4}(-\d\d){5}$`)

// BackupDir returns the path of a new backup directory in tmp, named after the current time. It
// does not create the directory. Where the clock was set back, as at the end of summer time, the
// name is that of a second after the newest backup: the newest one must sort last.
func BackupDir(ctx context.Context, e *engine.Env, tmp string, kind BackupKind) (string, error) {
	earlier, err := listBackups(ctx, e, tmp, kind)
	if err != nil {
		return "", err
	}
	at := e.World.Now()
	if len(earlier) > 0 {
		last := strings.TrimPrefix(path.Base(earlier[len(earlier)-1]), string(kind))
		newest, err := time.Parse(backupTimeLayout, last)
		if err == nil && at.Format(backupTimeLayout) < last {
			at = newest.Add(time.Second)
		}
	}
	for ; ; at = at.Add(time.Second) {
		dir := path.Join(tmp, string(kind)+at.Format(backupTimeLayout))
		if exists, err := state.Exists(ctx, e.World, dir); err != nil || !exists {
			return dir, err
		}
	}
}

// listBackups returns the backup directories of a kind in tmp, oldest first.
func listBackups(ctx context.Context, e *engine.Env, tmp string,
	kind BackupKind) ([]string, error) {
	all, err := e.World.ReadDir(ctx, tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing old backups: %w", err)
	}
	var dirs []string
	for _, f := range all { // sorted by name, and so by time
		at, ok := strings.CutPrefix(path.Base(f.Path), string(kind))
		if ok && f.Mode.IsDir() && backupTimePattern.MatchString(at) {
			dirs = append(dirs, f.Path)
		}
	}
	return dirs, nil
}

// PruneBackups removes the oldest backup directories of a kind in tmp until at most limit are left.
func PruneBackups(ctx context.Context, e *engine.Env, tmp string, kind BackupKind,
	limit int) error {
	dirs, err := listBackups(ctx, e, tmp, kind)
	if err != nil {
		return err
	}
	for len(dirs) > limit {
		if err := e.Do(ctx, change.Remove{Path: dirs[0]}); err != nil {
			return err
		}
		dirs = dirs[1:]
	}
	return nil
}
