package worldtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"path"
	"testing"
	"time"

	"kubeadm/internal/change"
	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// Snapshots tests change.SaveSnapshot in a world. A member answers at via; dir does not exist yet.
func Snapshots(t *testing.T, w world.World, via state.Etcd, dir string) {
	save := change.SaveSnapshot{Path: path.Join(dir, "snapshot.db"), Via: via}
	t.Run("complete and private", func(t *testing.T) {
		wantDone(t, w, save, false)
		saveAndUndo(t, w, save)
		mustSave(t, w, save)
		wantCompleteSnapshot(t, w, save.Path)
		info, err := w.Stat(newContext(t), dir)
		if err != nil || info.Mode != fs.ModeDir|0o700 {
			t.Errorf("the directory: %+v, %v", info, err)
		}
	})
	t.Run("again", func(t *testing.T) { // what exists is older, also if the clock was set back since
		wantDone(t, w, save, false)
		if _, err := save.Inverse(newContext(t), w); !errors.Is(err, change.ErrIrreversible) {
			t.Errorf("the inverse of replacing a snapshot: %v", err)
		}
		mustSave(t, w, save)
		wantCompleteSnapshot(t, w, save.Path)
	})
	t.Run("with keys", func(t *testing.T) {
		archive := change.SaveArchive{Path: path.Join(dir, "all.tar"), Via: via, Manifest: etcdsnapshot.Manifest{
			Node: "cp1", Files: []etcdsnapshot.ArchivedFile{{Name: "pki/ca.key", Data: []byte("key")}}}}
		saveAndUndo(t, w, archive)
		for range 2 {
			mustSave(t, w, archive)
			wantCompleteArchive(t, w, archive.Path)
		}
		if inside, err := w.ReadDir(newContext(t), dir); err != nil || len(inside) != 2 {
			t.Errorf("beside the archive are %+v, %v", inside, err)
		}
		mustDo(t, w, change.Remove{Path: archive.Path})
	})
	t.Run("unreachable etcd", func(t *testing.T) {
		other := save
		other.Path, other.Via.Endpoints = path.Join(dir, "other.db"),
			[]string{"https://127.0.0.1:1"}
		ctx, cancel := context.WithTimeout(newContext(t), 10*time.Second)
		defer cancel()
		if err := w.Do(ctx, other); err == nil {
			t.Error("a snapshot of an unreachable etcd: want an error")
		}
		wantDone(t, w, other, false)
		if inside, err := w.ReadDir(newContext(t), dir); err != nil || len(inside) != 1 {
			t.Errorf("left are %+v, %v", inside, err)
		}
	})
	t.Run("directory of the same name", func(t *testing.T) {
		other := save
		other.Path = path.Join(dir, "directory.db")
		mustDo(t, w, change.MakeDir{Path: other.Path, Mode: 0o700})
		if done, err := other.Done(newContext(t), w); done || err == nil {
			t.Errorf("done is %v, %v", done, err)
		}
		wantDoError(t, w, other)
	})
}

// mustSave carries out a change that is never done: the state of the cluster changes.
func mustSave(t *testing.T, w world.World, c change.Change) {
	t.Helper()
	if err := w.Do(newContext(t), c); err != nil {
		t.Fatalf("%s: %v", c, err)
	}
	wantDone(t, w, c, false)
}

func saveAndUndo(t *testing.T, w world.World, c change.Change) {
	t.Helper()
	back, err := c.Inverse(newContext(t), w)
	if err != nil {
		t.Fatalf("inverse of %s: %v", c, err)
	}
	mustSave(t, w, c)
	mustDo(t, w, back)
}

// wantCompleteSnapshot checks that the file has mode 0600, a database and its checksum.
func wantCompleteSnapshot(t *testing.T, w world.World, name string) {
	t.Helper()
	info, err := w.Stat(newContext(t), name)
	if err != nil || info.Mode != 0o600 {
		t.Errorf("the snapshot: %+v, %v", info, err)
	}
	data, err := w.ReadFile(newContext(t), name)
	if err != nil || len(data) < 512 || len(data)%512 != sha256.Size {
		t.Fatalf("the snapshot has %d bytes, %v", len(data), err)
	}
	end := len(data) - sha256.Size
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		t.Error("the snapshot does not match its checksum")
	}
	read, err := w.ReadSnapshot(newContext(t), name) // of a member that may have no keys, and so no revision
	if err != nil || read.Size != int64(len(data)) || read.EtcdVersion == "" {
		t.Errorf("the snapshot contains %+v, %v", read, err)
	}
}

// wantCompleteArchive checks that the file has mode 0600, the keys, and a snapshot.
func wantCompleteArchive(t *testing.T, w world.World, name string) {
	t.Helper()
	info, err := w.Stat(newContext(t), name)
	if err != nil || info.Mode != 0o600 {
		t.Errorf("the archive: %+v, %v", info, err)
	}
	f, err := w.OpenFile(newContext(t), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	archive, err := etcdsnapshot.OpenArchive(f, etcdsnapshot.Key{})
	if err != nil {
		t.Fatal(err)
	}
	var snapshot bytes.Buffer
	files, err := archive.Read(newContext(t), &snapshot)
	if err != nil || len(files) != 1 || string(files[0].Data) != "key" || archive.Manifest.Snapshot.EtcdVersion == "" ||
		int64(snapshot.Len()) != archive.Manifest.Snapshot.Size {
		t.Errorf("files %+v, manifest %+v, %v", files, archive.Manifest, err)
	}
}
