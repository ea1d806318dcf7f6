package memory

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"

	"kubeadm/internal/change"
)

// saveSnapshot writes a file in the format of a snapshot: two sectors and their SHA-256.
func (w *World) saveSnapshot(c change.SaveSnapshot) error {
	if err := w.checkReachable(c.Via); err != nil {
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
