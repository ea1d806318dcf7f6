package savesnapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"kubeadm/internal/etcdsnapshot"
	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
)

// checkTarget is an error if the name of FILE says that it is of another kind than the one with that
// suffix, or if what it would replace is of another kind: that may be anything.
func checkTarget(ctx context.Context, r state.Reader, file, suffix string) error {
	kind := map[string]string{etcdsnapshot.SnapshotSuffix: "a snapshot of etcd", etcdsnapshot.ArchiveSuffix: "an unencrypted archive",
		etcdsnapshot.ArchiveSuffix + etcdsnapshot.EncryptedSuffix: "an encrypted archive"}[suffix]
	switch end := path.Ext(file); end {
	case etcdsnapshot.SnapshotSuffix, etcdsnapshot.ArchiveSuffix, etcdsnapshot.EncryptedSuffix:
		if end != path.Ext(suffix) {
			return problem.New(fmt.Errorf("%s would be %s, but its name ends in %s", untrusted.Quote(file), kind, end),
				fmt.Sprintf("end the name in %s; for an archive, set --%s", suffix, flag.WithKeys))
		}
	}
	info, err := r.Stat(ctx, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && info.Mode.IsDir():
		return problem.New(fmt.Errorf("%s is a directory", untrusted.Quote(file)),
			untrusted.CommandHint("let the command choose a name in it", "kubeadm etcd snapshot save --dir", file))
	case err == nil:
		err = checkKind(ctx, r, file, suffix)
	}
	if err != nil {
		return problem.New(fmt.Errorf("%s exists, and it is not %s that could be replaced: %w", untrusted.Quote(file), kind, err),
			"name another file, or remove this one")
	}
	return nil
}

// checkKind is an error unless an existing file is of the kind with that suffix. An encrypted one can only
// be told by its name.
func checkKind(ctx context.Context, r state.Reader, file, suffix string) error {
	if suffix == etcdsnapshot.SnapshotSuffix {
		_, err := r.ReadSnapshot(ctx, file)
		return err
	}
	f, err := r.OpenFile(ctx, file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = etcdsnapshot.OpenArchive(f, etcdsnapshot.Key{})
	switch isEncrypted := errors.Is(err, etcdsnapshot.ErrEncrypted); {
	case suffix == etcdsnapshot.ArchiveSuffix:
		return err
	case err == nil:
		return errors.New("it is not encrypted")
	case isEncrypted && strings.HasSuffix(file, suffix):
		return nil
	case isEncrypted:
		return fmt.Errorf("it is encrypted, and its name does not end in %s", suffix)
	}
	return err
}
