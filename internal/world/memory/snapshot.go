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
)

// saveSnapshot writes a file in the format of a snapshot: two sectors and their SHA-256.
func (w *World) saveSnapshot(c change.SaveSnapshot) error {
	via := c.Via
	via.Serializable = true // a member sends its data without a quorum
	if err := w.checkReachable(via); err != nil {
		return fmt.Errorf("reading the size of etcd's database: %w", err)
	}
	data := make([]byte, 1024)
	copy(data, fmt.Sprintf("members %v", w.MemberList))
	sum := sha256.Sum256(data)
	if err := w.makeDirs(path.Dir(w.resolve(c.Path, true)), 0o700); err != nil {
		return err
	}
	return w.writeFile(change.WriteFile{Path: c.Path, Data: slices.Concat(data, sum[:]),
		Mode: 0o600})
}

func (w *World) saveArchive(ctx context.Context, c change.SaveArchive) error {
	snapshot, ok := w.Files[w.resolve(c.Snapshot, true)]
	if !ok {
		return w.notFoundError("open", c.Snapshot)
	}
	var b bytes.Buffer
	if err := etcdsnapshot.WriteArchive(ctx, &b, c.Protection, c.Manifest, bytes.NewReader(snapshot.Data)); err != nil {
		return err
	}
	return w.writeFile(change.WriteFile{Path: c.Path, Data: b.Bytes(), Mode: 0o600, Secret: true})
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
	info, ok := w.SnapshotInfos[path.Clean(name)]
	if !ok {
		info = etcdsnapshot.Info{Revision: 1, Keys: 1, StorageVersion: "3.7.0", EtcdVersion: "3.7.0",
			KubernetesVersion: "v1.37.1"}
		for _, m := range w.MemberList {
			info.Members = append(info.Members, m.Name)
		}
	}
	info.Size, info.SHA256 = size, sum
	return info, nil
}
