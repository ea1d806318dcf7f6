package real_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/world/real"
	"kubeadm/internal/world/worldtest"
	"kubeadm/internal/world/worldtest/plane"
)

func TestEtcdSnapshots(t *testing.T) {
	e := plane.StartEtcd(t)
	worldtest.Snapshots(t, real.New(), e.Via, filepath.Join(newTempDir(t), "contract"))

	t.Run("interrupt leaves nothing", func(t *testing.T) {
		dir := newTempDir(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := real.New().Do(ctx,
			change.SaveSnapshot{Path: filepath.Join(dir, "snapshot.db"), Via: e.Via}); err == nil {
			t.Error("want an error")
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	})
}
