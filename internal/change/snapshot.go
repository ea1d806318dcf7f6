package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// SaveSnapshot saves a snapshot of one etcd member to a file, in the format of `etcdctl snapshot
// save`: the database, followed by its SHA-256. The file has mode 0600; missing directories are
// created with mode 0700. The file is created atomically, after the checksum was verified and all
// data were synced.
type SaveSnapshot struct {
	Path string
	// Via has the endpoints; the first that answers and is not of a learner is used.
	Via state.Etcd
}

// ErrNoSpace is the error of a file system without enough free space for a snapshot.
var ErrNoSpace = errors.New("not enough free disk space for a snapshot of etcd")

// Target names the file.
func (c SaveSnapshot) Target() string { return FileTarget(c.Path) }

func (c SaveSnapshot) String() string {
	return fmt.Sprintf("save a snapshot of etcd to %q", c.Path)
}

// Cancelable marks that an interrupt may stop it: nothing is left of it then.
func (c SaveSnapshot) Cancelable() {}

// Done is false: a file that exists has an older state of the cluster, whatever its time says. It is an
// error if no regular file can be at the path.
func (c SaveSnapshot) Done(ctx context.Context, r state.Reader) (bool, error) {
	info, err := r.Stat(ctx, c.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, state.ExplainBlockedDir(ctx, r, c.Path, err)
	case !info.Mode.IsRegular():
		return false, fmt.Errorf("%s exists, but it is not a regular file", c.Path)
	}
	return false, nil
}

// Inverse removes the snapshot. It is ErrIrreversible if the file exists already.
func (c SaveSnapshot) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	if _, err := r.Lstat(ctx, c.Path); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, ErrIrreversible)
	}
	return Remove{Path: c.Path}, nil
}

// CheckSpace returns ErrNoSpace unless the free bytes of the file system of Path suffice for a
// snapshot of size bytes and a reserve.
func (c SaveSnapshot) CheckSpace(size, free uint64) error { return checkSpace(c.Path, size, free) }

// walSize is what etcd allocates for its write-ahead log: a file of 64 MiB in use and the next one.
const walSize = 2 * 64 << 20

// CheckSpace returns ErrNoSpace unless the free bytes of the file system of Dir suffice for the data of
// a snapshot of size bytes and a reserve.
func (c RestoreSnapshot) CheckSpace(size, free uint64) error {
	return checkSpace(c.Dir, size+walSize, free)
}

func checkSpace(path string, size, free uint64) error {
	// etcd often writes to the same disk
	const reserve = 64 << 20
	if free >= size+reserve {
		return nil
	}
	mib := func(bytes uint64) uint64 { return (bytes + 1<<20 - 1) >> 20 }
	return problem.New(
		fmt.Errorf("%w: %s needs %d MiB plus a reserve of %d MiB, but only %d MiB is free",
			ErrNoSpace, path, mib(size), uint64(reserve>>20), free>>20),
		"free disk space; remove old backups, or unused images: crictl rmi --prune",
		"free the unused space of etcd's database: kubeadm etcd defrag")
}
