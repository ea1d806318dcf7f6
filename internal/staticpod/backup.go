package staticpod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/flow"
	"kubeadm/internal/state"
)

// BackupKind is what a backup directory holds; the name of the directory begins with it.
type BackupKind string

// The kinds of backups. Their names are those of upstream's kubeadm.
const (
	ManifestBackup BackupKind = "kubeadm-backup-manifests-"
	EtcdBackup     BackupKind = "kubeadm-backup-etcd-"
)

// backupTime is the form of the time in the name of a backup directory.
const backupTime = "2006-01-02-15-04-05"

var backupName = regexp.MustCompile(`^\d{4}(-\d\d){5}$`)

// BackupDir returns the path of the backup directory of this run, below tmp; it creates nothing.
// An unfinished run of the same command that is resumed has the same directory. free reports
// whether the directory may be used: it is asked for one that exists, and false leads to one with
// a later time in its name.
func BackupDir(
	ctx context.Context, e *flow.Env, tmp string, kind BackupKind,
	free func(dir string) (bool, error),
) (string, error) {
	begun := e.World.Now()
	chosen := begun.Format(backupTime)
	if e.Once != nil {
		var err error
		chosen, err = e.Once(ctx, string(kind), func() (string, error) { return chosen, nil })
		if err != nil {
			return "", err
		}
	}
	for {
		dir := path.Join(tmp, string(kind)+chosen)
		there, err := state.Exists(ctx, e.World, dir)
		if err != nil || !there {
			return dir, err
		}
		if ok, err := free(dir); err != nil || ok {
			return dir, err
		}
		chosen = begun.Format(backupTime)
		begun = begun.Add(time.Second)
	}
}

// PruneBackups removes the oldest backup directories of a kind below tmp, so that at most as many
// as said are left.
func PruneBackups(ctx context.Context, e *flow.Env, tmp string, kind BackupKind, most int) error {
	all, err := e.World.ReadDir(ctx, tmp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for old backups: %w", err)
	}
	var dirs []string // oldest first, as their names sort by time
	for _, f := range all {
		name := path.Base(f.Path)
		n := len(kind)
		if f.Mode.IsDir() && len(name) > n && name[:n] == string(kind) &&
			backupName.MatchString(name[n:]) {
			dirs = append(dirs, f.Path)
		}
	}
	for len(dirs) > most {
		if err := e.Do(ctx, change.Remove{Path: dirs[0]}); err != nil {
			return err
		}
		dirs = dirs[1:]
	}
	return nil
}
