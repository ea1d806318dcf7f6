package cli

import (
	"cmp"
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
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// snapshotDir is a directory with snapshots that nodes have saved under names that say which node of
// which cluster has made them, and when. Several clusters may use it.
type snapshotDir struct {
	path, node string
	clusters   []string // IDs of this node's cluster, which has two while its CA is replaced
}

// savedFile is a file of a snapshotDir.
type savedFile struct {
	state.FileInfo
	etcdsnapshot.FileName
}

// openSnapshotDir returns a directory for snapshots of this node.
func openSnapshotDir(ctx context.Context, r state.Reader, here etcdNode, path string) (d snapshotDir, err error) {
	d = snapshotDir{path: cmp.Or(path, here.Paths.Snapshots()), node: here.Name}
	file := here.Paths.Cert("ca")
	data, err := state.ReadRequired(ctx, r, file)
	if err != nil {
		return d, err
	}
	cas, err := pki.ParseCertificates(data)
	if err != nil {
		return d, fmt.Errorf("reading %s: %w", file, err)
	}
	for _, ca := range cas {
		d.clusters = append(d.clusters, etcdsnapshot.ClusterID(pki.PinOf(ca).String()))
	}
	return d, nil
}

// isOwn reports whether this node has made a file of that name.
func (d snapshotDir) isOwn(n etcdsnapshot.FileName) bool {
	return n.Node == d.node && slices.Contains(d.clusters, n.Cluster)
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

// savedFiles returns the snapshots and archives among files, oldest first. An empty file is neither.
func savedFiles(files []state.FileInfo) (saved []savedFile) {
	for _, f := range files {
		if name, ok := etcdsnapshot.ParseFileName(path.Base(f.Path)); ok && f.Mode.IsRegular() && f.Size > 0 {
			saved = append(saved, savedFile{f, name})
		}
	}
	slices.SortStableFunc(saved, func(a, b savedFile) int { return a.Time.Compare(b.Time) })
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
		name, ok := etcdsnapshot.ParseFileName(change.NameOfTemporary(path.Base(f.Path)))
		if ok && d.isOwn(name) && f.Mode.IsRegular() {
			if err := e.Do(ctx, change.Remove{Path: f.Path}); err != nil {
				return "", err
			}
		}
	}
	name := etcdsnapshot.FileName{Cluster: d.clusters[0], Node: d.node, Time: e.World.Now().Truncate(time.Second), Suffix: suffix}
	for _, f := range savedFiles(files) {
		if d.isOwn(f.FileName) && !f.Time.Before(name.Time) {
			name.Time = f.Time.Add(time.Second)
		}
	}
	return path.Join(d.path, name.String()), nil
}

// prune removes the oldest files of this node until at most keep of each kind are left.
func (d snapshotDir) prune(ctx context.Context, e *engine.Env, keep int) error {
	files, err := d.read(ctx, e.World)
	if err != nil {
		return err
	}
	kept := map[bool]int{} // by whether it is a plain snapshot
	for _, f := range slices.Backward(savedFiles(files)) {
		if !d.isOwn(f.FileName) {
			continue
		}
		if kept[f.IsSnapshot()]++; kept[f.IsSnapshot()] > keep {
			e.Say("removing the old snapshot %s", f.Path)
			if err := e.Do(ctx, change.Remove{Path: f.Path}); err != nil {
				return err
			}
		}
	}
	return nil
}
