package etcd_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"

	"kubeadm/internal/change"
	"kubeadm/internal/world/etcd"
	"kubeadm/internal/world/worldtest/plane"
)

// What is restored has the keys of the snapshot, this member alone, and revisions that no client has seen.
func TestRealRestore(t *testing.T) {
	e := plane.StartEtcd(t)
	client, err := etcd.NewTestClient(os.ReadFile, e.Via)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	kv := clientv3.NewKV(client)
	for _, key := range []string{"/registry/a", "/registry/b"} {
		if _, err := kv.Put(t.Context(), key, "value"); err != nil {
			t.Fatal(err)
		}
	}
	file := saveSnapshot(t, e)
	dir := filepath.Dir(file)
	saved, err := etcd.New(os.ReadFile).ReadDatabase(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	restore := change.RestoreSnapshot{Snapshot: file, Dir: filepath.Join(dir, "new"), Name: "cp1",
		PeerURL: "https://192.0.2.1:2380", Token: "token", Revision: saved.Revision + 1_000_000_000}
	if err := etcd.Restore(t.Context(), restore, restore.Dir); err != nil {
		t.Fatal(err)
	}
	restored, err := etcd.New(os.ReadFile).ReadDatabase(t.Context(),
		filepath.Join(restore.Dir, "member", "snap", "db"))
	if err != nil || restored.Revision < saved.Revision+1_000_000_000 || restored.Keys != saved.Keys ||
		!slices.Equal(restored.Members, []string{"cp1"}) {
		t.Errorf("of %+v, the restored data have %+v, %v", saved, restored, err)
	}
	flipped, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	flipped[len(flipped)/2] ^= 1
	if err := os.WriteFile(file, flipped, 0o600); err != nil {
		t.Fatal(err)
	}
	restore.Dir = filepath.Join(dir, "other")
	if err := etcd.Restore(t.Context(), restore, restore.Dir); err == nil {
		t.Error("a damaged snapshot is restored")
	}
}

// A client that has seen revisions above those of the snapshot watches on after a restore, as
// kube-apiserver does when its connection breaks. Without a higher revision it gets neither an event nor
// an error, and keeps what does not exist. With it, the watch ends, and the client lists again.
func TestWatchAfterRestore(t *testing.T) {
	e := plane.StartEtcd(t)
	client, err := etcd.NewTestClient(os.ReadFile, e.Via)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	put := func(c *clientv3.Client, key string) int64 {
		answer, err := clientv3.NewKV(c).Put(t.Context(), key, "value")
		if err != nil {
			t.Fatal(err)
		}
		return answer.Header.Revision
	}
	put(client, "/registry/kept")
	file := saveSnapshot(t, e)
	dir := filepath.Dir(file)
	var seen int64
	for range 50 {
		seen = put(client, "/registry/phantom")
	}
	watch := func(name string, restore func(peer, dir string) error) clientv3.WatchResponse {
		peer, data := e.PeerURL(t), filepath.Join(dir, name)
		if err := restore(peer, data); err != nil {
			t.Fatal(err)
		}
		restored, err := etcd.NewTestClient(os.ReadFile, e.StartRestored(t, name, peer, data))
		if err != nil {
			t.Fatal(err)
		}
		defer restored.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		events := clientv3.NewWatcher(restored).Watch(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithRev(seen+1))
		put(restored, "/registry/new")
		return <-events // closed, so zero, if nothing comes
	}
	raised := watch("raised", func(peer, dir string) error {
		return etcd.Restore(t.Context(), change.RestoreSnapshot{Snapshot: file, Name: "raised", PeerURL: peer,
			Token: "a", Revision: seen + 1000}, dir)
	})
	if raised.CompactRevision <= seen {
		t.Errorf("the watch does not end: %+v", raised)
	}
	same := watch("same", func(peer, dir string) error {
		return snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{SnapshotPath: file, OutputDataDir: dir,
			Name: "same", PeerURLs: []string{peer}, InitialCluster: "same=" + peer, InitialClusterToken: "b"})
	})
	if same.CompactRevision != 0 || len(same.Events) != 0 {
		t.Errorf("without a higher revision the client notices the restore by itself: %+v", same)
	}
}

// saveSnapshot saves a snapshot to a directory of its own.
func saveSnapshot(t *testing.T, e *plane.Etcd) (file string) {
	t.Helper()
	s, err := etcd.New(os.ReadFile).Snapshot(t.Context(), e.Via)
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	if err := s.Copy(t.Context(), &data); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "snapshot.db")
	if err := os.WriteFile(file, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
