// Package snapshots names, lists and removes the snapshots of etcd that control plane nodes save. The names
// say which node of which cluster created a file, and when.
package snapshots

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
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/state"
)

// Options are what the user says of a snapshot to save.
type Options struct {
	File string // its path; empty for a name in Dir
	Dir  string // empty for the default directory
	Keep int    // how many of this node stay in Dir; 0 for all
	// WithKeys is set for an archive that also has the keys of the cluster, encrypted by Protection.
	WithKeys   bool
	Protection etcdsnapshot.Protection
}

// Suffix is the end of the file's name.
func (o Options) Suffix() string {
	switch {
	case !o.WithKeys:
		return etcdsnapshot.SnapshotSuffix
	case o.Protection.IsEncrypted():
		return etcdsnapshot.ArchiveSuffix + etcdsnapshot.EncryptedSuffix
	}
	return etcdsnapshot.ArchiveSuffix
}

// Dir is a directory with snapshots. Several nodes and clusters may use it.
type Dir struct {
	path, node string
	clusters   []string // IDs of this node's cluster, which has two while its CA is replaced
}

// File is a snapshot or an archive in a Dir.
type File struct {
	state.FileInfo
	etcdsnapshot.FileName
}

// Open returns the directory for snapshots of this node; of an empty path, the default one.
func Open(ctx context.Context, r state.Reader, n node.Local, path string) (d Dir, err error) {
	d = Dir{path: cmp.Or(path, n.Paths.Snapshots()), node: n.Name}
	file := n.Paths.Cert("ca")
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

// List returns the snapshots and archives in a directory, which need not exist yet, oldest first. An empty
// file is neither.
func List(ctx context.Context, r state.Reader, path string) ([]File, error) {
	all, err := readDir(ctx, r, path)
	return findSaved(all), err
}

func readDir(ctx context.Context, r state.Reader, path string) ([]state.FileInfo, error) {
	files, err := r.ReadDir(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing snapshots: %w", err)
	}
	return files, nil
}

func findSaved(files []state.FileInfo) (all []File) {
	for _, f := range files {
		if name, ok := etcdsnapshot.ParseFileName(path.Base(f.Path)); ok && f.Mode.IsRegular() && f.Size > 0 {
			all = append(all, File{f, name})
		}
	}
	slices.SortStableFunc(all, func(a, b File) int { return a.Time.Compare(b.Time) })
	return all
}

// isOwn reports whether this node creates files of that name.
func (d Dir) isOwn(n etcdsnapshot.FileName) bool {
	return n.Node == d.node && slices.Contains(d.clusters, n.Cluster)
}

// Prepare returns the path of a new file, and removes what killed runs of this node have left of
// theirs. Where the clock was set back, the name is that of a second after the newest one: the newest
// one must sort last.
func (d Dir) Prepare(ctx context.Context, e *engine.Env, suffix string) (string, error) {
	files, err := readDir(ctx, e.World, d.path)
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
	for _, f := range findSaved(files) {
		if d.isOwn(f.FileName) && !f.Time.Before(name.Time) {
			name.Time = f.Time.Add(time.Second)
		}
	}
	return path.Join(d.path, name.String()), nil
}

// Prune removes the oldest files of this node until at most keep of each kind are left.
func (d Dir) Prune(ctx context.Context, e *engine.Env, keep int) error {
	files, err := List(ctx, e.World, d.path)
	if err != nil {
		return err
	}
	kept := map[bool]int{} // by whether it is a plain snapshot
	for _, f := range slices.Backward(files) {
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
