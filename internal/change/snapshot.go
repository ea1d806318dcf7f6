package change

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// SaveSnapshot makes a file hold a snapshot of the etcd data of one member, as `etcdctl snapshot
// save` writes it: the database, and its SHA-256 after it. The file has mode 0600; directories
// that are missing get mode 0700. It appears once it is whole, checked and on the disk: a file at
// Path is never a part of a snapshot.
type SaveSnapshot struct {
	Path string
	// Via reaches the member. Of several endpoints the first that answers is taken.
	Via state.Etcd
	// NotBefore is the time from which on a snapshot is new enough; zero for any. A run that is
	// resumed after a kill sets it to its own beginning, as long as the snapshot is not needed
	// yet: else a way back would lose what was written to etcd in between.
	NotBefore time.Time
}

// ErrNoSpace says that a file system has too little space for a snapshot.
var ErrNoSpace = errors.New("there is not enough free disk space for a snapshot of etcd")

// Target is the file.
func (c SaveSnapshot) Target() string { return FileTarget(c.Path) }

func (c SaveSnapshot) String() string {
	return fmt.Sprintf("save a snapshot of etcd to %q", c.Path)
}

// Breakable marks that it may be stopped half-way: nothing is left of it then.
func (c SaveSnapshot) Breakable() {}

// Done reports whether there is a snapshot that is new enough.
func (c SaveSnapshot) Done(ctx context.Context, r state.Reader) (bool, error) {
	info, err := r.Stat(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, state.ExplainBlockedDir(ctx, r, c.Path, err)
	}
	if !info.Mode.IsRegular() {
		return false, fmt.Errorf("%s is in the way: it is not a regular file", c.Path)
	}
	return !info.ModTime.Before(c.NotBefore), nil
}

// Inverse removes the snapshot. One that is replaced cannot be put back.
func (c SaveSnapshot) Inverse(ctx context.Context, r state.Reader) (Change, error) {
	if _, err := r.Lstat(ctx, c.Path); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, ErrIrreversible)
	}
	return Remove{Path: c.Path}, nil
}

// CheckSpace is an error that is ErrNoSpace unless a snapshot of size bytes fits beside a reserve
// into the free bytes of the file system that Path is on.
func (c SaveSnapshot) CheckSpace(size, free uint64) error {
	// the machine must go on working: etcd itself writes to what is often the same disk
	const reserve = 64 << 20
	if free >= size+reserve {
		return nil
	}
	mib := func(bytes uint64) uint64 { return (bytes + 1<<20 - 1) >> 20 }
	return problem.New("",
		fmt.Errorf("%w: %s would take %d MiB, and %d MiB are free, of which %d MiB must stay free",
			ErrNoSpace, c.Path, mib(size), free>>20, uint64(reserve>>20)),
		"free disk space, such as by removing old backups or unused images: crictl rmi --prune",
		"if much of etcd's database is unused, shrink it: etcdctl defrag")
}
