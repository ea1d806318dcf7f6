package change

import (
	"context"
	"fmt"

	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
)

// SaveArchive saves a snapshot of one etcd member together with the keys of the cluster. The file has
// mode 0600 and is created atomically, after the snapshot was verified and all data were synced. The
// snapshot alone is in no file that has a name.
type SaveArchive struct {
	Path       string
	Via        state.Etcd            // as in SaveSnapshot
	Manifest   etcdsnapshot.Manifest // without the snapshot, which is described when it was received
	Protection etcdsnapshot.Protection
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

// Done is false, as that of SaveSnapshot.
func (c SaveArchive) Done(ctx context.Context, r state.Reader) (bool, error) {
	return SaveSnapshot{Path: c.Path}.Done(ctx, r)
}

// Inverse removes the archive. It is ErrIrreversible if the file exists already.
func (c SaveArchive) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	return SaveSnapshot{Path: c.Path}.Inverse(ctx, r)
}

// CheckSpace returns ErrNoSpace unless the free bytes of the file system of Path suffice for a snapshot
// of size bytes, the archive with it, and a reserve.
func (c SaveArchive) CheckSpace(size, free uint64) error { return checkSpace(c.Path, 2*size, free) }
