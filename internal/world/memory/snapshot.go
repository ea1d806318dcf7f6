package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
)

// saveSnapshot writes a file in the format of a snapshot.
func (w *World) saveSnapshot(c change.SaveSnapshot) error {
	data, err := w.snapshotData(c.Via)
	if err != nil {
		return err
	}
	return w.writePrivate(c.Path, data)
}

// snapshotData is what a member sends: two sectors and their SHA-256.
func (w *World) snapshotData(via state.Etcd) ([]byte, error) {
	via.Serializable = true // a member sends its data without a quorum
	if err := w.checkReachable(via); err != nil {
		return nil, fmt.Errorf("reading the size of etcd's database: %w", err)
	}
	data := make([]byte, 1024)
	copy(data, fmt.Sprintf("members %v", w.MemberList))
	sum := sha256.Sum256(data)
	return slices.Concat(data, sum[:]), nil
}

func (w *World) saveArchive(ctx context.Context, c change.SaveArchive) error {
	data, err := w.snapshotData(c.Via)
	if err != nil {
		return err
	}
	c.Manifest.Snapshot = w.snapshotInfo("")
	if c.Manifest.Snapshot.Size, c.Manifest.Snapshot.SHA256, err = etcdsnapshot.Verify(ctx, bytes.NewReader(data)); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := etcdsnapshot.WriteArchive(ctx, &b, c.Protection, c.Manifest, bytes.NewReader(data)); err != nil {
		return err
	}
	return w.writePrivate(c.Path, b.Bytes())
}

func (w *World) writePrivate(name string, data []byte) error {
	if err := w.makeDirs(path.Dir(w.resolve(name, true)), 0o700); err != nil {
		return err
	}
	return w.writeFile(change.WriteFile{Path: name, Data: data, Mode: 0o600, Secret: true})
}

// ReadSnapshot verifies a snapshot. What it contains is in SnapshotInfos.
func (w *World) ReadSnapshot(ctx context.Context, name string) (etcdsnapshot.Info, error) {
	f, err := w.OpenFile(ctx, name)
	if err != nil {
		return etcdsnapshot.Info{}, err
	}
	size, sum, err := etcdsnapshot.Verify(ctx, f)
	if err != nil {
		return etcdsnapshot.Info{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	info := w.snapshotInfo(path.Clean(name))
	info.Size, info.SHA256 = size, sum
	return info, nil
}

// snapshotInfo is what SnapshotInfos says that a file contains, or else the state of this world.
func (w *World) snapshotInfo(name string) etcdsnapshot.Info {
	if info, ok := w.SnapshotInfos[name]; ok {
		return info
	}
	info := etcdsnapshot.Info{Revision: 1, Keys: 1, StorageVersion: "3.7.0", EtcdVersion: "3.7.0",
		KubernetesVersion: "v1.37.1"}
	for _, m := range w.MemberList {
		info.Members = append(info.Members, m.Name)
	}
	return info
}

// ReadDatabase describes a member's database. What it contains is in SnapshotInfos.
func (w *World) ReadDatabase(ctx context.Context, name string) (etcdsnapshot.Info, error) {
	if _, err := w.Stat(ctx, name); err != nil {
		return etcdsnapshot.Info{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	info, ok := w.SnapshotInfos[path.Clean(name)]
	if !ok {
		return info, etcdsnapshot.ErrDatabase
	}
	return info, nil
}

// restoreSnapshot creates the directory of a member with a RestoredFile.
func (w *World) restoreSnapshot(c change.RestoreSnapshot) error {
	if err := w.makeDirs(w.resolve(c.Dir, true)+"/member", 0o700); err != nil {
		return err
	}
	return w.writeFile(change.WriteFile{Path: c.Dir + "/member/" + RestoredFile, Mode: 0o600,
		Data: fmt.Appendf(nil, "%s %d", c.Token, c.Revision)})
}

// RestoredFile is a file in a restored member's directory. It contains the token of the cluster and the
// revision that the data begin with.
const RestoredFile = "token"
