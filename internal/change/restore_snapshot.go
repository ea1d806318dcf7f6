package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/state"
)

// RestoreSnapshot creates the data directory of an etcd member from a snapshot. The member is the only
// one of a new cluster. Dir appears when it is complete.
//
// Revision is above all that a client has seen. The restored data begin there, and what is older counts
// as compacted: so each watch ends, and its client lists again. Otherwise a watch from a
// revision that the restored data have not reached yet gets no events and no error, and informers keep
// objects that do not exist (https://github.com/etcd-io/etcd/issues/16028).
type RestoreSnapshot struct {
	Snapshot string           // a snapshot, or an archive with one
	Key      etcdsnapshot.Key // decrypts an archive
	Dir      string           // created; it contains the directory "member"
	Name     string           // of the member
	PeerURL  string           // of the member
	// Token makes the IDs of the cluster and of the member differ from those of every other cluster: a
	// member with older data cannot talk to the new one.
	Token    string
	Revision int64 // of the restored data; above that of the snapshot
}

// RevisionBump is how far the revisions of restored data are above those that clients have seen: more
// than any cluster writes between the last answer of its etcd and its end. The review of the flag of
// etcdutl names it (https://github.com/etcd-io/etcd/pull/16029).
const RevisionBump = 1_000_000_000

// Cancelable marks that an interrupt may stop it: Dir does not exist then.
func (c RestoreSnapshot) Cancelable() {}

// Target names the directory.
func (c RestoreSnapshot) Target() string { return FileTarget(c.Dir) }

func (c RestoreSnapshot) String() string {
	return fmt.Sprintf("restore etcd's data from %q to %q", c.Snapshot, c.Dir)
}

// Done reports whether the directory exists.
func (c RestoreSnapshot) Done(ctx context.Context, r state.Reader) (bool, error) {
	_, err := r.Lstat(ctx, c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Inverse removes the directory.
func (c RestoreSnapshot) Inverse(context.Context, state.Reader) (Change, error) {
	return Remove{Path: c.Dir}, nil
}
