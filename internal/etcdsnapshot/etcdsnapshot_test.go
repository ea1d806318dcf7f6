package etcdsnapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
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
		name := FileName("cp-1.example", at, suffix)
		node, when, ok := ParseFileName(name)
		if !ok || node != "cp-1.example" || !when.Equal(at) || !strings.HasSuffix(name, "-20261125T231500Z"+suffix) {
			t.Errorf("%s: %q, %s, %v", name, node, when, ok)
		}
	}
	for _, name := range []string{"", "etcd-", "snapshot.db", "etcd-cp1.db", "etcd--20261125T231500Z.db",
		"etcd-cp1-20261125T231500Z", "etcd-cp1-20261125T231500Z.db.age", "etcd-cp1-20261125T231500Z.db.bak",
		"etcd-cp1-20261325T231500Z.db", "etcd-cp1-20261125T231500Z.db.tar"} {
		if node, at, ok := ParseFileName(name); ok {
			t.Errorf("%s: %q, %s", name, node, at)
		}
	}
}
