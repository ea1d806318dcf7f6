package etcdsnapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestVerifier(t *testing.T) {
	data := bytes.Repeat([]byte("database"), 2*512/8)
	sum := sha256.Sum256(data)
	complete := slices.Concat(data, sum[:])
	for name, c := range map[string]struct {
		sent []byte
		want error
	}{
		"complete":         {complete, nil},
		"nothing":          {nil, ErrEmpty},
		"checksum alone":   {sum[:], ErrIncomplete},
		"truncated":        {complete[:len(complete)-1], ErrIncomplete},
		"without checksum": {data, ErrNoChecksum},
		"missing sector":   {complete[512:], ErrChecksum},
		"changed byte":     {slices.Concat([]byte("D"), complete[1:]), ErrChecksum},
		"changed checksum": {slices.Concat(complete[:len(complete)-1], []byte{complete[len(complete)-1] ^ 1}),
			ErrChecksum},
	} {
		for _, part := range []int{1, 31, 32, 33, 512, 4096} {
			v := NewVerifier()
			for chunk := range slices.Chunk(c.sent, part) {
				if _, err := v.Write(chunk); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := v.Sum(); !errors.Is(err, c.want) || v.Size() != int64(len(c.sent)) {
				t.Errorf("%s in parts of %d: %d bytes, %v", name, part, v.Size(), err)
			}
		}
		if _, _, err := Verify(t.Context(), bytes.NewReader(c.sent)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckReadableBy(t *testing.T) {
	for _, c := range []struct {
		stored, etcd string
		readable     bool
	}{
		{"", "3.6.9", true}, {"3.6.0", "3.6.9", true}, {"3.6.0", "3.7.0", true}, {"3.7.0", "v3.7.0-0", true},
		{"3.7.0", "3.6.14", false}, {"4.0.0", "3.7.0", false}, {"x", "3.7.0", false}, {"3.6.0", "latest", false},
	} {
		err := Info{StorageVersion: c.stored}.CheckReadableBy(c.etcd)
		if (err == nil) != c.readable {
			t.Errorf("storage %q, etcd %q: %v", c.stored, c.etcd, err)
		}
	}
}

func TestFileNames(t *testing.T) {
	at := time.Date(2026, 11, 25, 23, 15, 0, 0, time.UTC)
	for _, suffix := range []string{SnapshotSuffix, ArchiveSuffix, ArchiveSuffix + EncryptedSuffix} {
		want := FileName{Cluster: "1a2b3c4d", Node: "cp-1.example", Time: at, Suffix: suffix}
		name := want.String()
		got, ok := ParseFileName(name)
		if !ok || got != want || name != "etcd-1a2b3c4d-cp-1.example-20261125T231500Z"+suffix {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"", "etcd-", "snapshot.db", "etcd-cp1.db", "etcd-1a2b3c4d--20261125T231500Z.db",
		"etcd-cp1-20261125T231500Z.db", "etcd-1a2b3c4d-20261125T231500Z.db", "etcd-1A2B3C4D-cp1-20261125T231500Z.db",
		"etcd-1a2b3c4d-cp1-20261125T231500Z", "etcd-1a2b3c4d-cp1-20261125T231500Z.db.age",
		"etcd-1a2b3c4d-cp1-20261125T231500Z.db.bak", "etcd-1a2b3c4d-cp1-20261325T231500Z.db",
		"etcd-1a2b3c4d-cp1-20261125T231500Z.db.tar"} {
		if got, ok := ParseFileName(name); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if id := ClusterID("sha256:1a2b3c4d5e6f"); id != "1a2b3c4d" {
		t.Errorf("the ID is %s", id)
	}
}
