package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
)

// SaveArchive saves a snapshot, which is a file by then, together with the keys of the cluster. The file
// has mode 0600 and is created atomically, after all data were synced.
type SaveArchive struct {
	Path       string
	Snapshot   string // path of the snapshot
	Manifest   etcdsnapshot.Manifest
	Protection etcdsnapshot.Protection
	// NotBefore is the earliest modification time of an archive that is new enough; zero for any.
	NotBefore time.Time
}

// Target names the file.
func (c SaveArchive) Target() string { return FileTarget(c.Path) }

func (c SaveArchive) String() string {
	how := "encrypted"
	if !c.Protection.IsEncrypted() {
		how = "unencrypted"
	}
	return fmt.Sprintf("save a snapshot with the cluster's keys, %s, to %q", how, c.Path)
}

// Cancelable marks that an interrupt may stop it: nothing is left of it then.
func (c SaveArchive) Cancelable() {}

// Done reports whether an archive exists that is new enough.
func (c SaveArchive) Done(ctx context.Context, r state.Reader) (bool, error) {
	return SaveSnapshot{Path: c.Path, NotBefore: c.NotBefore}.Done(ctx, r)
}

// Inverse removes the archive. It is ErrIrreversible if the file exists already.
func (c SaveArchive) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	if _, err := r.Lstat(ctx, c.Path); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, ErrIrreversible)
	}
	return Remove{Path: c.Path}, nil
}

// CheckSpace returns ErrNoSpace unless the free bytes of the file system suffice.
func (c SaveArchive) CheckSpace(free uint64) error {
	return SaveSnapshot{Path: c.Path}.CheckSpace(uint64(max(0, c.Manifest.Snapshot.Size)), free)
}
