package journal

import (
	"context"
	"slices"
	"strings"

	"kubeadm/internal/change"
)

// WasCreated reports whether an earlier run of the same name created the target. A file must still
// hold what was written.
func (w *World) WasCreated(target string) bool {
	w.mu.Lock()
	written, ok := w.log.made[target]
	w.mu.Unlock()
	if !ok || len(written) == 0 {
		return ok
	}
	now, err := w.ReadFile(context.Background(), strings.TrimPrefix(target, change.FileTarget("")))
	return err == nil && slices.Contains(written, sha256Hex(now))
}

// Recorded reports whether an earlier run of the same name was about to create the target,
// whatever has become of it since.
func (w *World) Recorded(target string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.log.made[target]
	return ok
}
