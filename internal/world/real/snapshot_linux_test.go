package real_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdsnapshot"
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

// The snapshot of an archive is restored, and nothing of it is left in clear text, also where the key is
// wrong, the archive is damaged, or a killed run has left something.
func TestRestoreFromArchive(t *testing.T) {
	e := plane.StartEtcd(t)
	w, ctx, dir := real.New(), t.Context(), newTempDir(t)
	snapshot, file := filepath.Join(dir, "snapshot.db"), filepath.Join(dir, "all.tar.age")
	if err := w.Do(ctx, change.SaveSnapshot{Path: snapshot, Via: e.Via}); err != nil {
		t.Fatal(err)
	}
	info, err := w.ReadSnapshot(ctx, snapshot)
	if err != nil {
		t.Fatal(err)
	}
	protection, err := etcdsnapshot.NewPassphrase("correct")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Do(ctx, change.SaveArchive{Path: file, Via: e.Via, Protection: protection}); err != nil {
		t.Fatal(err)
	}
	restore := func(passphrase string) (string, error) {
		key, err := etcdsnapshot.NewPassphraseKey(passphrase)
		if err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(newTempDir(t), "etcd")
		for _, left := range []string{"restored.part/member", "restored.snapshot"} {
			if err := os.MkdirAll(filepath.Join(data, left), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		return data, w.Do(ctx, change.RestoreSnapshot{Snapshot: file, Key: key,
			Dir: filepath.Join(data, "restored"), Name: "new1", PeerURL: "https://192.0.2.1:2380", Token: "t",
			Revision: info.Revision + change.RevisionBump})
	}
	data, err := restore("correct")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := w.ReadDir(ctx, data); err != nil || len(found) != 1 {
		t.Errorf("there are %v, %v", found, err)
	}
	if _, err := os.Stat(filepath.Join(data, "restored/member/snap/db")); err != nil {
		t.Error(err)
	}
	data, err = restore("wrong")
	if !errors.Is(err, etcdsnapshot.ErrWrongKey) {
		t.Errorf("with a wrong key: %v", err)
	}
	if found, err := w.ReadDir(ctx, data); err != nil || len(found) != 0 {
		t.Errorf("with a wrong key, there are %v, %v", found, err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	data, err = restore("correct")
	if !errors.Is(err, etcdsnapshot.ErrArchive) {
		t.Errorf("of a damaged archive: %v", err)
	}
	if found, err := w.ReadDir(ctx, data); err != nil || len(found) != 0 {
		t.Errorf("of a damaged archive, there are %v, %v", found, err)
	}
}
