package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/engine"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
)

// snapshotDir is a directory with snapshots that nodes have saved under names with the node and the
// time.
type snapshotDir struct{ path, node string }

// savedFile is a file of a snapshotDir.
type savedFile struct {
	state.FileInfo
	node string
	at   time.Time
}

// read lists the directory, which need not exist yet.
func (d snapshotDir) read(ctx context.Context, r state.Reader) ([]state.FileInfo, error) {
	files, err := r.ReadDir(ctx, d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing snapshots: %w", err)
	}
	return files, nil
}

// savedFiles returns the snapshots and archives among files, oldest first.
func savedFiles(files []state.FileInfo) (saved []savedFile) {
	for _, f := range files {
		if node, at, ok := etcdsnapshot.ParseFileName(path.Base(f.Path)); ok && f.Mode.IsRegular() {
			saved = append(saved, savedFile{f, node, at})
		}
	}
	slices.SortStableFunc(saved, func(a, b savedFile) int { return a.at.Compare(b.at) })
	return saved
}

// prepare returns the path of a new file, and removes what killed runs of this node have left of
// theirs. Where the clock was set back, the name is that of a second after the newest one: the newest
// one must sort last.
func (d snapshotDir) prepare(ctx context.Context, e *engine.Env, suffix string) (string, error) {
	files, err := d.read(ctx, e.World)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		node, _, ok := etcdsnapshot.ParseFileName(change.NameOfTemporary(path.Base(f.Path)))
		if ok && node == d.node && f.Mode.IsRegular() {
			if err := e.Do(ctx, change.Remove{Path: f.Path}); err != nil {
				return "", err
			}
		}
	}
	at := e.World.Now().Truncate(time.Second)
	for _, f := range savedFiles(files) {
		if f.node == d.node && !f.at.Before(at) {
			at = f.at.Add(time.Second)
		}
	}
	return path.Join(d.path, etcdsnapshot.FileName(d.node, at, suffix)), nil
}

// prune removes the oldest files of this node until at most keep of each kind are left.
func (d snapshotDir) prune(ctx context.Context, e *engine.Env, keep int) error {
	files, err := d.read(ctx, e.World)
	if err != nil {
		return err
	}
	kept := map[bool]int{} // by whether it is a plain snapshot
	for _, f := range slices.Backward(savedFiles(files)) {
		isSnapshot := path.Ext(f.Path) == etcdsnapshot.SnapshotSuffix
		if f.node != d.node {
			continue
		}
		if kept[isSnapshot]++; kept[isSnapshot] > keep {
			e.Say("removing the old snapshot %s", f.Path)
			if err := e.Do(ctx, change.Remove{Path: f.Path}); err != nil {
				return err
			}
		}
	}
	return nil
}
