package etcdsnapshot

import (
	"context"
	"io"
)

// Backup is an archive that was read and verified: everything but the snapshot, which may be large.
type Backup struct {
	Path     string // of the archive
	Key      Key    // that decrypts it
	Manifest Manifest
	Files    []ArchivedFile // with their data
}

// ReadBackup reads all of an archive and verifies its digests.
func ReadBackup(ctx context.Context, path string, from io.Reader, key Key) (Backup, error) {
	b := Backup{Path: path, Key: key}
	archive, err := OpenArchive(from, key)
	if err != nil {
		return b, err
	}
	b.Manifest = archive.Manifest
	b.Files, err = archive.Read(ctx, io.Discard)
	return b, err
}

// File returns the data of a file; nil if the archive does not have it.
func (b *Backup) File(name string) []byte {
	for _, f := range b.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}
